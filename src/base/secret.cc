// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <sodium.h>

#include "base/bytes.h"

namespace atl {
bool Secret::matches(std::string_view candidate) const { return constant_time_equal(value_, candidate); }
void Secret::wipe() {
  if (!value_.empty()) sodium_memzero(value_.data(), value_.size());
  value_.clear();
}
}  // namespace atl
