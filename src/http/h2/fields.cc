// SPDX-License-Identifier: Apache-2.0
#include "http/h2/fields.h"

#include "base/text.h"
#include "http/syntax.h"
#include "http/trailers.h"

namespace atl::http {

bool is_hop_by_hop(std::string_view name) {
  return name == "connection" || name == "transfer-encoding" || name == "keep-alive" || name == "upgrade" ||
         name == "proxy-connection" || name == "te";
}

nghttp2_nv h2_field(std::string_view name, std::string_view value) {
  // nghttp2 copies the bytes; its interface only lacks the const.
  auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

bool add_trailer(Headers& trailers, std::size_t& bytes, std::string_view name, std::string_view value) {
  constexpr std::size_t kFieldOverhead = 32;  // RFC 9113 §6.5.2 counts a field so
  bytes += name.size() + value.size() + kFieldOverhead;
  if (bytes > kMaxTrailerBytes) return false;
  if (may_be_trailer(name) && is_field_value(trim(value)))
    trailers.add(std::string(name), std::string(trim(value)));
  return true;
}

int submit_trailers(nghttp2_session* session, std::int32_t stream, const Headers& trailers) {
  std::vector<nghttp2_nv> fields;
  for (const auto& field : trailers) {
    if (may_be_trailer(field.name)) fields.push_back(h2_field(field.name, field.value));
  }
  return nghttp2_submit_trailer(session, stream, fields.data(), fields.size());
}

}  // namespace atl::http
