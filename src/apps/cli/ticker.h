// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "apps/cli/session.h"

namespace atl::cli {

// Shows, on a terminal and after a second, that something is waited for and for how long, while it lives. The
// line is gone when the ticker is.
class Ticker {
 public:
  Ticker(Session& session, std::string what);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  struct State;
  static Task<> run(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace atl::cli
