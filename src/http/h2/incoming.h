// SPDX-License-Identifier: Apache-2.0
//
// The bodies that come in on one HTTP/2 connection, how much of them may be in memory, and how their bytes
// are given back to the windows of flow control; shared by both sides of HTTP/2.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/fair_share.h"

namespace atl::http {

// Of one stream.
struct H2Incoming {
  std::string received;
  std::size_t taken = 0;       // bytes of `received` that the exchange has
  std::size_t unreleased = 0;  // bytes not yet given back to the connection's window

  std::size_t buffered() const { return received.size() - taken; }
  void add(std::string_view bytes);
  // Moves up to out.size() bytes out.
  std::size_t take(std::span<char> out);
  // Nobody reads on: what is there goes.
  void forget();
};

// What a connection that belongs to nobody in particular may hold.
inline constexpr std::size_t kH2OwnBytes = 12 * 1024 * 1024;

// Of one connection: the window that its peer has, and what was taken off the window before it was read, so
// that one slow reader does not stop the others. Both come out of the share of a user (decision 0132). Where
// that has no room, a connection goes on with the window that the protocol gives to every one, and with small
// buffers, and bytes go off the window as they are read.
class H2Room {
 public:
  // The window that the protocol starts with, and that a peer has in any case (RFC 9113 §6.9.2).
  static constexpr std::size_t kLeastWindow = 65'535;

  // Without a user: kH2OwnBytes of its own.
  H2Room(const std::optional<FairShare::User>& user, std::size_t most_window);

  std::int32_t window() const { return window_; }
  // Whether it has room for large steps of reading and writing, too.
  bool wide() const { return wide_; }

  // Body bytes have come; they stay on the window where there is no room for them.
  void arrived(nghttp2_session* session, H2Incoming& body, std::string_view bytes);
  // The exchange has taken body bytes of stream `id`. Null `session`: the connection is over.
  void left(nghttp2_session* session, std::int32_t id, bool closed, H2Incoming& body, std::size_t bytes);

 private:
  FairShare::Part part_;
  std::int32_t window_ = kLeastWindow;
  bool wide_ = false;
};

}  // namespace atl::http
