// SPDX-License-Identifier: Apache-2.0
//
// Text forms of bytes, hashes, and comparisons that do not leak by timing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl {

std::string hex_encode(std::string_view raw);
std::optional<std::string> hex_decode(std::string_view text);  // lower or upper case; nullopt when malformed

enum class Padding : bool { kNone, kEquals };
std::string base64_encode(std::string_view raw, Padding padding = Padding::kEquals);
std::optional<std::string> base64_decode(std::string_view text);  // padding optional, strict otherwise
std::string base64url_encode(std::string_view raw);               // no padding
std::optional<std::string> base64url_decode(std::string_view text);

std::string sha256(std::string_view data);  // 32 raw bytes
// True when equal. Time depends on the lengths only.
bool constant_time_equal(std::string_view a, std::string_view b);
bool valid_utf8(std::string_view text);

}  // namespace atl
