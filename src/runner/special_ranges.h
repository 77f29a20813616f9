// SPDX-License-Identifier: Apache-2.0
//
// Addresses that no sandbox ever reaches, whatever its rules say (RFC 6890 and the registries it founded).
#pragma once

#include <array>
#include <cstdint>

namespace atl::runner {

struct SpecialRange {
  std::array<std::uint8_t, 4> address;
  std::uint8_t prefix;
};

inline constexpr SpecialRange kSpecialRanges[] = {
    {{0, 0, 0, 0}, 8},        // this network
    {{10, 0, 0, 0}, 8},       // private
    {{100, 64, 0, 0}, 10},    // carrier NAT; also our own slots, and 100.100.100.200
    {{127, 0, 0, 0}, 8},      // loopback
    {{169, 254, 0, 0}, 16},   // link-local, with the metadata services of clouds
    {{172, 16, 0, 0}, 12},    // private
    {{192, 0, 0, 0}, 24},     // protocol assignments
    {{192, 0, 2, 0}, 24},     // documentation
    {{192, 88, 99, 0}, 24},   // 6to4 relays
    {{192, 168, 0, 0}, 16},   // private
    {{198, 18, 0, 0}, 15},    // benchmarks
    {{198, 51, 100, 0}, 24},  // documentation
    {{203, 0, 113, 0}, 24},   // documentation
    {{224, 0, 0, 0}, 4},      // multicast
    {{240, 0, 0, 0}, 4},      // reserved, and broadcast
};

constexpr bool is_special(const std::array<std::uint8_t, 4>& a) {
  for (const SpecialRange& range : kSpecialRanges) {
    auto word = [](const std::array<std::uint8_t, 4>& b) {
      return static_cast<std::uint32_t>(b[0]) << 24 | static_cast<std::uint32_t>(b[1]) << 16 |
             static_cast<std::uint32_t>(b[2]) << 8 | b[3];
    };
    std::uint32_t mask = ~0u << (32 - range.prefix);
    if ((word(a) & mask) == word(range.address)) return true;
  }
  return false;
}

}  // namespace atl::runner
