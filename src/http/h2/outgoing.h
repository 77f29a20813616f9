// SPDX-License-Identifier: Apache-2.0
//
// The body that goes out on one HTTP/2 stream, and how nghttp2 takes it; shared by both sides of HTTP/2.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "async/event.h"
#include "http/message.h"

namespace atl::http {

// Ends the stream and not the connection.
inline constexpr int kH2Refused = NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;

struct H2Outgoing {
  explicit H2Outgoing(async::Executor executor) : writable(executor) {}

  std::string_view outgoing;  // belongs to the exchange, which waits until it is empty
  bool end_queued = false;
  async::Event writable;  // `outgoing` has been taken, or the end of the stream
};

// nghttp2_data_source_read_callback without copying; `trailers` follow the end. The result is nghttp2's.
ssize_t read_outgoing(nghttp2_session* session, std::int32_t id, std::size_t limit, std::uint32_t* flags,
                      const H2Outgoing& body, const Headers& trailers);
// nghttp2_send_data_callback: appends the frame to `out`. NGHTTP2_ERR_WOULDBLOCK when that is full.
int send_outgoing(std::string& out, const nghttp2_frame& frame, const std::uint8_t* head, std::size_t size,
                  H2Outgoing& body);

}  // namespace atl::http
