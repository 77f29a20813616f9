// SPDX-License-Identifier: Apache-2.0
//
// The rules of GET /files: ranges, encodings, header values. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace atl::guest {

// Part of a file.
struct ByteRange {
  std::uint64_t first;
  std::uint64_t length;
};
// How a Range header is answered: 200, 206 or 416.
enum class RangeKind { kWhole, kPart, kUnsatisfiable };
struct RangeChoice {
  RangeKind kind = RangeKind::kWhole;
  ByteRange range{};
};
// What "bytes=…" asks of a file of `size` bytes. Several ranges, other units and malformed values mean the
// whole file, as RFC 9110 §14.2 allows.
RangeChoice choose_range(std::optional<std::string_view> value, std::uint64_t size);

enum class Encoding { kIdentity, kGzip, kNone };  // kNone: the client accepts nothing that we have
Encoding choose_encoding(const http::Headers& headers);

// Media type by the name's extension; application/octet-stream otherwise.
std::string_view media_type_of(std::string_view name);
// inline; filename=… (RFC 6266), with filename* for names outside of ASCII.
std::string content_disposition(std::string_view name);
// IMF-fixdate of RFC 9110 §5.6.7.
std::string http_date(std::int64_t unix_seconds);

}  // namespace atl::guest
