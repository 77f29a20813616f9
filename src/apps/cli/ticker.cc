// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/ticker.h"

#include "apps/cli/output.h"
#include "async/event.h"

namespace atl::cli {
namespace {
constexpr Steady::duration kEvery = std::chrono::milliseconds(250);
}  // namespace

struct Ticker::State {
  State(Session& s, std::string what) : progress(std::move(what)), ended(s.executor()) {}
  Progress progress;
  async::Event ended;
  bool over = false;
};

Ticker::Ticker(Session& session, std::string what)
    : state_(std::make_shared<State>(session, std::move(what))) {
  session.spawn("ticker", run(state_));
}

Ticker::~Ticker() {
  state_->over = true;
  state_->progress.clear();
  state_->ended.notify_all();
}

Task<> Ticker::run(std::shared_ptr<State> state) {
  while (!state->over) {
    state->progress.update("waiting");
    co_await state->ended.wait_until(Steady::now() + kEvery);
  }
}

}  // namespace atl::cli
