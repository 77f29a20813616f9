// SPDX-License-Identifier: Apache-2.0
//
// Digest: BLAKE2b-256 of bytes that come in parts. For files of ours that must be found to be whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace atl {

class Digest {
 public:
  using Value = std::array<std::uint8_t, 32>;
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::span<const std::byte> bytes);
  // Once, at the end.
  Value finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// SHA-256 of many texts that begin alike: the beginning is worked through once.
class Sha256Beginning {
 public:
  explicit Sha256Beginning(std::string_view beginning);
  ~Sha256Beginning();
  Sha256Beginning(const Sha256Beginning&) = delete;
  Sha256Beginning& operator=(const Sha256Beginning&) = delete;

  // 32 raw bytes: the hash of the beginning and `rest`.
  std::string with(std::string_view rest) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl
