// SPDX-License-Identifier: Apache-2.0
#include "base/fair_share.h"

#include <algorithm>
#include <utility>

namespace atl {

bool FairShare::grant(State& state, const std::string& user, std::size_t amount) {
  auto known = state.held.find(user);
  std::size_t held = known == state.held.end() ? 0 : known->second;
  std::size_t free = state.all - state.used;
  if (amount > free) return false;
  // Both sides are below `all`, so nothing overflows.
  std::size_t most = std::min(state.most_of_one, free - amount);
  if (held > most || amount > most - held) return false;
  state.used += amount;
  state.held[user] = held + amount;
  return true;
}

std::optional<FairShare::Part> FairShare::take(std::string user, std::size_t amount) {
  if (!grant(*state_, user, amount)) return std::nullopt;
  return Part(state_, std::move(user), amount);
}

FairShare::Part& FairShare::Part::operator=(Part&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  state_ = std::move(other.state_);
  user_ = std::move(other.user_);
  amount_ = other.amount_;
  return *this;
}

bool FairShare::Part::grow(std::size_t amount) {
  if (!grant(*state_, user_, amount)) return false;
  amount_ += amount;
  return true;
}

void FairShare::Part::give_back() {
  if (!state_) return;
  state_->used -= amount_;
  auto held = state_->held.find(user_);
  if (held == state_->held.end()) return;
  held->second -= amount_;
  if (held->second == 0) state_->held.erase(held);
}

}  // namespace atl
