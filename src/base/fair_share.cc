// SPDX-License-Identifier: Apache-2.0
#include "base/fair_share.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace atl {

std::size_t FairShare::room(const State& state, const std::string& user) {
  auto known = state.held.find(user);
  std::size_t held = known == state.held.end() ? 0 : known->second;
  std::size_t free = state.all - state.used;
  if (held >= state.most_of_one || held >= free) return 0;
  // What is left free afterwards is no less than what the user holds then.
  return std::min(state.most_of_one - held, (free - held) / 2);
}

bool FairShare::grant(State& state, const std::string& user, std::size_t amount) {
  if (amount > room(state, user)) return false;
  if (amount == 0) return true;
  state.used += amount;
  state.held[user] += amount;
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

void FairShare::Part::shrink(std::size_t amount) {
  CHECK(amount <= amount_, "give {} of {} back", amount, amount_);
  if (amount == 0) return;
  amount_ -= amount;
  state_->used -= amount;
  auto held = state_->held.find(user_);
  held->second -= amount;
  if (held->second == 0) state_->held.erase(held);
}

void FairShare::Part::give_back() {
  if (state_) shrink(amount_);
}

}  // namespace atl
