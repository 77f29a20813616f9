// SPDX-License-Identifier: Apache-2.0
//
// The head of a request on its way upstream: made anew from what was understood, never copied from what came.
#pragma once

#include <span>
#include <string>

#include "gateway/names/authority.h"
#include "http/message.h"

namespace atl::gateway {

// What the rules say about one request.
struct RequestRules {
  Authority authority;  // the one that was agreed on; becomes Host
  bool tls = true;
  // A credential goes in, or the answer is read for another reason: no codings, ranges or WebSocket
  // extensions.
  bool read_answer = false;
  std::span<const std::string> injected;  // lower-case names of headers that a binding sets
  // Let a path pass that servers read in different ways. For hosts where nothing hangs on the path: no rule
  // names one, no credential is for a part of its paths only.
  bool as_spelled = false;
};

// The request as it may leave. Gone are: fields about one hop, all of Proxy-*, what Connection names, Host
// and Expect, and an Upgrade to anything but websocket (as RFC 9110 §7.8 allows: Java's client always offers
// h2c). Refused, with the word in brackets: TRACE and TRACK (method_refused, 405), a Connection that names a
// field that a binding sets or that is not for one hop (connection_refused, 400), a path that is read in
// different ways (path_refused, 400), a WebSocket handshake that is none (websocket_refused, 400).
// refusal_status() gives the status.
Result<http::RequestHead> prepare_request(const http::RequestHead& received, const RequestRules& rules);
int refusal_status(const Error& error);

// True when the request, prepared, asks for a WebSocket.
bool is_websocket(const http::RequestHead& request);

// True for paths that servers are known to read in different ways: "//", "." and ".." as segments,
// percent-encoded slashes, backslashes, dots and NUL, also encoded twice, malformed codes, parameters after
// dots.
bool is_ambiguous_path(std::string_view path);

// The fields that may follow a body, without those that a binding sets.
http::Headers prepare_trailers(const http::Headers& received, std::span<const std::string> injected);

}  // namespace atl::gateway
