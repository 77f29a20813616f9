// SPDX-License-Identifier: Apache-2.0
#include "model/state.h"

namespace atl::model {

bool legal(State from, State to) {
  if (terminal(from)) return false;
  if (to == State::kStopped) return from == State::kStopping;
  if (to == State::kStopping) return from != State::kStopping;
  if (to == State::kFailed) return true;
  switch (from) {
    case State::kCreating: return to == State::kReady || to == State::kRunning;
    case State::kReady: return to == State::kCreating;
    case State::kRunning: return to == State::kPausing;
    case State::kPausing: return to == State::kPaused || to == State::kRunning;
    case State::kPaused: return to == State::kResuming;
    case State::kResuming: return to == State::kRunning || to == State::kPaused;
    default: return false;
  }
}

Millis bound(State state) {
  switch (state) {
    case State::kCreating: return Millis(30'000);
    case State::kPausing: return Millis(60'000);
    case State::kResuming: return Millis(60'000);
    case State::kStopping: return Millis(30'000);
    default: return Millis(0);
  }
}

std::string_view operation_name(Operation operation) {
  switch (operation) {
    case Operation::kLaunch: return "launch";
    case Operation::kCreate: return "create";
    case Operation::kStop: return "stop";
    case Operation::kRelease: return "release";
    case Operation::kPause: return "pause";
    case Operation::kResume: return "resume";
  }
  return "unknown";
}

}  // namespace atl::model
