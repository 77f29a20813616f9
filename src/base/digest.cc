// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <sodium.h>

#include "base/check.h"

namespace atl {

struct Digest::State {
  crypto_generichash_state raw;
};

Digest::Digest() : state_(std::make_unique<State>()) {
  int made = crypto_generichash_init(&state_->raw, nullptr, 0, Value().size());
  CHECK(made == 0, "BLAKE2b refuses {} bytes", Value().size());
}

Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  crypto_generichash_update(&state_->raw, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

Digest::Value Digest::finish() {
  Value value{};
  crypto_generichash_final(&state_->raw, value.data(), value.size());
  return value;
}

}  // namespace atl
