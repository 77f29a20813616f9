// SPDX-License-Identifier: Apache-2.0
//
// How long is waited, on this host, for what a sound program does in a known time.
#pragma once

#include <chrono>
#include <cstdint>

namespace atl {

// How many times as long as on an ordinary machine: 1 there, more where the host is emulated or always busy,
// so that what is slow is not taken for what is broken. Set once, before other threads start, from
// --patience.
inline std::uint32_t patience_factor = 1;
inline constexpr std::uint32_t kMaxPatience = 20;

template <class Rep, class Period>
std::chrono::duration<Rep, Period> patient(std::chrono::duration<Rep, Period> bound) {
  return bound * static_cast<Rep>(patience_factor);
}

}  // namespace atl
