// SPDX-License-Identifier: Apache-2.0
//
// Gate: lets a bounded number of tasks of one loop through at a time, in the order they came.
#pragma once

#include <deque>
#include <utility>

#include "async/event.h"

namespace atl::async {

// Outlives its passes and waiters. Not thread safe; use from its loop only.
class Gate {
 public:
  Gate(Executor executor, std::size_t limit) : executor_(std::move(executor)), free_(limit) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Holds one place inside. Move-only; leaves when destroyed.
  class Pass {
   public:
    explicit Pass(Gate& gate) : gate_(&gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_) gate_->leave();
    }

   private:
    Gate* gate_;
  };

  // Waits for a place. A waiter that is cancelled gives its turn to the next one.
  Task<Pass> enter();
  std::size_t waiting() const { return queue_.size(); }

 private:
  struct Waiter {
    explicit Waiter(Gate& g) : gate(g), granted_event(g.executor_) { gate.queue_.push_back(this); }
    ~Waiter();
    Gate& gate;
    Event granted_event;
    bool granted = false;
    bool taken = false;
  };
  void leave();

  Executor executor_;
  std::size_t free_;
  std::deque<Waiter*> queue_;  // bounded by the tasks that exist
};

}  // namespace atl::async
