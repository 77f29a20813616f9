// SPDX-License-Identifier: Apache-2.0
//
// Random bytes of the kernel (getrandom(2)) and the text forms that Atoll makes of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace atl {

// Fills `out`. Ends the process when the kernel cannot deliver: there is no safe way to go on.
void random_bytes(std::span<std::uint8_t> out);
std::array<std::uint8_t, 32> random_key();
std::string random_hex(std::size_t bytes);
// `length` characters of [a-z0-9], about 5.17 bits each.
std::string random_base36(std::size_t length);
// Version 4 UUID in lower case.
std::string random_uuid();

}  // namespace atl
