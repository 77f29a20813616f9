// SPDX-License-Identifier: Apache-2.0
//
// The state machine of a sandbox: which transitions are legal, and how long a passing state may last.
//
//   creating ─► ready ─► creating ─► running ─► pausing ─► paused ─► resuming ─► running
//   every state but the terminal ones ─► stopping ─► stopped, and ─► failed
#pragma once

#include "model/sandbox.h"

namespace atl::model {

// Terminal states: nothing of the sandbox is left, or what is left only waits for its release.
constexpr bool terminal(State state) { return state == State::kStopped || state == State::kFailed; }
// Passing states last no longer than their bound.
constexpr bool passing(State state) {
  return state == State::kCreating || state == State::kPausing || state == State::kResuming ||
         state == State::kStopping;
}
bool legal(State from, State to);
// How long a passing state may last until it counts as failed. Zero for the others.
Millis bound(State state);

// What was begun and must be finished or undone after a crash. Stored beside the row, in the same
// transaction.
enum class Operation : std::uint8_t {
  kLaunch = 1,  // start a sandbox for the pool: undone
  kCreate,      // make a claimed or new sandbox run for its tenant: undone, nobody was told its id
  kStop,        // end it and release everything: finished
  kRelease,     // the row is terminal, the runner still holds resources: finished
  kPause,       // bring it to rest: finished
  kResume,      // wake it: finished
};
std::string_view operation_name(Operation operation);

}  // namespace atl::model
