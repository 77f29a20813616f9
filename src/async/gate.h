// SPDX-License-Identifier: Apache-2.0
//
// Gate: lets a bounded number of tasks of one loop through at a time. Waiting tasks stand in lanes, one after
// the other in each; the lanes are served in turn, so that a crowd in one delays nobody in another.
#pragma once

#include <deque>
#include <list>
#include <string>
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
  Task<Pass> enter(std::string lane = {});
  std::size_t waiting() const;
  std::size_t waiting(std::string_view lane) const;

 private:
  struct Waiter {
    Waiter(Gate& g, std::string name);
    ~Waiter();
    Gate& gate;
    std::string lane;
    Event granted_event;
    bool granted = false;
    bool taken = false;
  };
  struct Lane {
    std::string name;
    std::deque<Waiter*> waiters;
  };
  std::list<Lane>::iterator find(std::string_view lane);
  void forget(Waiter* waiter);
  void leave();

  Executor executor_;
  std::size_t free_;
  std::list<Lane> lanes_;  // none is empty; the first is served next; bounded by the tasks that exist
};

}  // namespace atl::async
