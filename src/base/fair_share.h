// SPDX-License-Identifier: Apache-2.0
//
// FairShare: a bounded amount of something (questions, bytes) that many use, so that none of them can take
// what the others need.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace atl {

// Who takes more may then hold at most as much as is left free for everybody: one greedy user gets half, and
// n of them leave one part of n + 1. Use from one thread.
class FairShare {
 public:
  // `most_of_one`: a user never holds more, however much is free.
  FairShare(std::size_t all, std::size_t most_of_one)
      : state_(std::make_shared<State>(State{all, most_of_one, 0, {}})) {}

  // What one user holds; given back when it goes. It may outlive the FairShare.
  class Part;
  // One who takes parts, for code that need not know of whom else there is.
  class User;
  User of(std::string user) const;
  // nullopt when it is more than `user` may have now.
  std::optional<Part> take(std::string user, std::size_t amount);
  // What all hold together.
  std::size_t used() const { return state_->used; }

 private:
  struct State {
    std::size_t all;
    std::size_t most_of_one;
    std::size_t used;
    std::unordered_map<std::string, std::size_t> held;
  };
  // How much more `user` may have now.
  static std::size_t room(const State& state, const std::string& user);
  static bool grant(State& state, const std::string& user, std::size_t amount);

  std::shared_ptr<State> state_;
};

// Movable; what was moved away holds nothing.
class FairShare::Part {
 public:
  Part(Part&& other) noexcept = default;
  Part& operator=(Part&& other) noexcept;
  ~Part() { give_back(); }

  // Takes more; false, and nothing is taken, when that is too much.
  bool grow(std::size_t amount);
  // The most that grow() would take now.
  std::size_t room() const { return FairShare::room(*state_, user_); }
  // Gives some of it back, `amount()` at most.
  void shrink(std::size_t amount);
  // What it holds now.
  std::size_t amount() const { return amount_; }

 private:
  friend class FairShare;
  Part(std::shared_ptr<State> state, std::string user, std::size_t amount)
      : state_(std::move(state)), user_(std::move(user)), amount_(amount) {}
  void give_back();

  std::shared_ptr<State> state_;  // null after it was moved away
  std::string user_;
  std::size_t amount_;
};

// May be copied, and may outlive the FairShare.
class FairShare::User {
 public:
  // A part that holds nothing yet.
  Part open() const { return Part(state_, name_, 0); }

 private:
  friend class FairShare;
  User(std::shared_ptr<State> state, std::string name) : state_(std::move(state)), name_(std::move(name)) {}

  std::shared_ptr<State> state_;
  std::string name_;
};

inline FairShare::User FairShare::of(std::string user) const { return User(state_, std::move(user)); }

}  // namespace atl
