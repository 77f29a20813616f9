// SPDX-License-Identifier: Apache-2.0
#include "http/h2/outgoing.h"

#include <algorithm>

#include "base/check.h"
#include "http/h2/fields.h"

namespace atl::http {
namespace {
// Enough for one write to the socket; more waits in the streams, so that memory stays bounded.
constexpr std::size_t kBatchBytes = 256 * 1024;
constexpr std::size_t kFrameHead = 9;  // bytes (RFC 9113 §4.1)
}  // namespace

ssize_t read_outgoing(nghttp2_session* session, std::int32_t id, std::size_t limit, std::uint32_t* flags,
                      const H2Outgoing& body, const Headers& trailers) {
  if (body.outgoing.empty() && !body.end_queued) return NGHTTP2_ERR_DEFERRED;
  auto size = std::min(limit, body.outgoing.size());
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (body.end_queued && size == body.outgoing.size()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (trailers.size() > 0) {
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      if (submit_trailers(session, id, trailers) != 0) return kH2Refused;
    }
  }
  return static_cast<ssize_t>(size);
}

int send_outgoing(std::string& out, const nghttp2_frame& frame, const std::uint8_t* head, std::size_t size,
                  H2Outgoing& body) {
  if (out.size() >= kBatchBytes) return NGHTTP2_ERR_WOULDBLOCK;
  // The exchange may have given up since read_outgoing() promised these bytes.
  if (body.outgoing.size() < size) return kH2Refused;
  CHECK(frame.data.padlen == 0, "padding that nobody asked for");
  out.append(reinterpret_cast<const char*>(head), kFrameHead);
  out.append(body.outgoing.substr(0, size));
  body.outgoing.remove_prefix(size);
  if (body.outgoing.empty()) body.writable.notify_all();
  return 0;
}

}  // namespace atl::http
