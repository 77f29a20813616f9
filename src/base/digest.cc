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

struct Sha256Beginning::State {
  crypto_hash_sha256_state raw;
};

Sha256Beginning::Sha256Beginning(std::string_view beginning) : state_(std::make_unique<State>()) {
  crypto_hash_sha256_init(&state_->raw);
  crypto_hash_sha256_update(&state_->raw, reinterpret_cast<const unsigned char*>(beginning.data()),
                            beginning.size());
}

Sha256Beginning::~Sha256Beginning() = default;

std::string Sha256Beginning::with(std::string_view rest) const {
  crypto_hash_sha256_state copy = state_->raw;
  crypto_hash_sha256_update(&copy, reinterpret_cast<const unsigned char*>(rest.data()), rest.size());
  std::string out(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256_final(&copy, reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

}  // namespace atl
