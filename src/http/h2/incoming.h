// SPDX-License-Identifier: Apache-2.0
//
// The body that comes in on one HTTP/2 stream, and how its bytes are given back to the windows of flow
// control; shared by both sides of HTTP/2.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <string>

#include "base/memory.h"

namespace atl::http {

struct H2Incoming {
  std::string received;
  std::size_t taken = 0;       // bytes of `received` that the exchange has
  std::size_t unreleased = 0;  // bytes not yet given back to the connection's window

  std::size_t buffered() const { return received.size() - taken; }
  // Nobody reads on: what is there goes.
  void forget() {
    free_text(received);
    taken = 0;
  }
};

// Gives `bytes` of `body` back to the window of the connection, where they still count, and to that of stream
// `id` unless it is `closed`.
void give_back(nghttp2_session* session, std::int32_t id, bool closed, H2Incoming& body, std::size_t bytes);

}  // namespace atl::http
