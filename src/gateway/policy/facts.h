// SPDX-License-Identifier: Apache-2.0
//
// What is known about a connection and a request when a policy is asked. Views: they live as long as the
// question.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/names/authority.h"
#include "http/message.h"

namespace atl::gateway::policy {

// Who asks. From the slot and the feed of control, never from what the sandbox says.
struct Who {
  std::string_view sandbox;
  std::string_view tenant;
  std::string_view template_id;
  std::string_view label;  // of the process in the sandbox; empty when it has none
};

// What the first bytes of a connection are.
enum class Stream : std::uint8_t { kHttp, kTls, kOther };

// A connection that a sandbox has opened.
struct ConnectionFacts {
  Who who;
  Authority authority;
  // The address that will be dialled: the authority's own, or one that its name resolved to. Absent before
  // the name was resolved; then rules about addresses stay open.
  std::optional<IpAddress> address;
  Stream stream = Stream::kOther;
  // Somebody outside looks the name up (an egress proxy): its address will never be known here, and rules
  // about addresses say nothing about it.
  bool resolved_elsewhere = false;
};

// A request inside it; `at.stream` is kTls when it came out of an opened TLS connection.
struct RequestFacts {
  ConnectionFacts at;
  std::string_view method;                  // "GET"
  std::string_view path;                    // as received, without the query: "/a%20b"
  std::string_view query;                   // as received, without '?'
  const http::Headers* headers = nullptr;   // required
  std::optional<std::uint64_t> body_bytes;  // absent when the length is not known yet
  std::optional<std::string_view>
      body;  // whole, at most kMaxJudgedBody, only when Policy::reads_body() says so
  std::int64_t unix_seconds = 0;
};

// A larger body is not read by rules: what they say about it is then unknown.
inline constexpr std::size_t kMaxJudgedBody = 64 * 1024;

}  // namespace atl::gateway::policy
