// SPDX-License-Identifier: Apache-2.0
//
// Header fields in the form that nghttp2 takes, and trailers; shared by both sides of HTTP/2.
#pragma once

#include <nghttp2/nghttp2.h>

#include <string_view>
#include <vector>

#include "http/message.h"

namespace atl::http {

// Fields about one hop; HTTP/2 does not know them (RFC 9113 §8.2.2).
bool is_hop_by_hop(std::string_view name);

// Points into the texts, which nghttp2 copies when it is called.
nghttp2_nv h2_field(std::string_view name, std::string_view value);

// Takes one trailer field. False when they are more than kMaxTrailerBytes in sum. Fields that may not stand
// there are left out.
inline constexpr std::size_t kMaxTrailerBytes = 8 * 1024;
bool add_trailer(Headers& trailers, std::size_t& bytes, std::string_view name, std::string_view value);

// For a data source that has come to its end. The result is nghttp2's.
int submit_trailers(nghttp2_session* session, std::int32_t stream, const Headers& trailers);

}  // namespace atl::http
