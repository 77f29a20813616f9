// SPDX-License-Identifier: Apache-2.0
#include "async/gate.h"

#include <algorithm>

namespace atl::async {

Gate::Waiter::Waiter(Gate& g, std::string name) : gate(g), lane(std::move(name)), granted_event(g.executor_) {
  auto found = gate.find(lane);
  if (found == gate.lanes_.end()) found = gate.lanes_.insert(gate.lanes_.end(), Lane{lane, {}});
  found->waiters.push_back(this);
}

Gate::Waiter::~Waiter() {
  if (!granted) gate.forget(this);
  if (granted && !taken) gate.leave();
}

std::list<Gate::Lane>::iterator Gate::find(std::string_view lane) {
  return std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& item) { return item.name == lane; });
}

std::size_t Gate::waiting() const {
  std::size_t sum = 0;
  for (const Lane& lane : lanes_) sum += lane.waiters.size();
  return sum;
}

std::size_t Gate::waiting(std::string_view lane) const {
  std::size_t sum = 0;
  for (const Lane& item : lanes_) sum += item.name == lane ? item.waiters.size() : 0;
  return sum;
}

void Gate::forget(Waiter* waiter) {
  auto lane = find(waiter->lane);
  std::erase(lane->waiters, waiter);
  if (lane->waiters.empty()) lanes_.erase(lane);
}

Task<Gate::Pass> Gate::enter(std::string lane) {
  if (free_ > 0) {
    --free_;
    co_return Pass(*this);
  }
  Waiter waiter(*this, std::move(lane));
  while (!waiter.granted) co_await waiter.granted_event.wait();
  waiter.taken = true;
  co_return Pass(*this);
}

void Gate::leave() {
  if (lanes_.empty()) {
    ++free_;
    return;
  }
  auto lane = lanes_.begin();
  Waiter* next = lane->waiters.front();
  lane->waiters.pop_front();
  if (lane->waiters.empty()) {
    lanes_.erase(lane);
  } else {
    lanes_.splice(lanes_.end(), lanes_, lane);
  }
  next->granted = true;
  next->granted_event.notify_all();
}

}  // namespace atl::async
