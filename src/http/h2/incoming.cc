// SPDX-License-Identifier: Apache-2.0
#include "http/h2/incoming.h"

#include <algorithm>

namespace atl::http {

void give_back(nghttp2_session* session, std::int32_t id, bool closed, H2Incoming& body, std::size_t bytes) {
  std::size_t owed = std::min(bytes, body.unreleased);
  body.unreleased -= owed;
  if (owed > 0) nghttp2_session_consume_connection(session, owed);
  if (!closed) nghttp2_session_consume_stream(session, id, bytes);
}

}  // namespace atl::http
