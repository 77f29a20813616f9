// SPDX-License-Identifier: Apache-2.0
#include "async/gate.h"

#include <algorithm>

namespace atl::async {

Gate::Waiter::~Waiter() {
  if (!granted) std::erase(gate.queue_, this);
  if (granted && !taken) gate.leave();
}

Task<Gate::Pass> Gate::enter() {
  if (free_ > 0) {
    --free_;
    co_return Pass(*this);
  }
  Waiter waiter(*this);
  while (!waiter.granted) co_await waiter.granted_event.wait();
  waiter.taken = true;
  co_return Pass(*this);
}

void Gate::leave() {
  if (queue_.empty()) {
    ++free_;
    return;
  }
  Waiter* next = queue_.front();
  queue_.pop_front();
  next->granted = true;
  next->granted_event.notify_all();
}

}  // namespace atl::async
