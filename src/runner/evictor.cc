// SPDX-License-Identifier: Apache-2.0
#include "runner/evictor.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"

namespace atl::runner {
namespace {

constexpr std::uint64_t kStepBytes = 16 << 20;
// KERNEL: a first look at pages that were used only marks them as old, and pages on their way to swap are not
// free yet; so the end is only where several steps in a row have found next to nothing.
constexpr std::uint64_t kWorthBytes = 64 << 10;
constexpr int kIdleSteps = 25;
constexpr Millis kRest{80};

}  // namespace

bool has_swap(std::string_view swaps) {
  std::size_t heading = swaps.find('\n');
  return heading != std::string_view::npos && heading + 1 < swaps.size();
}

Evictor::Evictor(const sys::Cgroups& cgroups) : cgroups_(cgroups), thread_([this] { work(); }) {}

Evictor::~Evictor() {
  {
    std::lock_guard lock(mutex_);
    ending_ = broken_off_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Evictor::add(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(name);
  }
  changed_.notify_all();
}

void Evictor::wake(const std::string& name) {
  std::unique_lock lock(mutex_);
  std::erase(waiting_, name);
  if (current_ != name) return;
  broken_off_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return current_ != name; });
}

void Evictor::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    broken_off_ = false;
    lock.unlock();
    evict(current_);  // nobody else writes it
    lock.lock();
    current_.clear();
    changed_.notify_all();
  }
}

void Evictor::evict(const std::string& name) {
  Steady::time_point start = Steady::now();
  std::uint64_t taken = 0;
  Result<std::uint64_t> step = std::uint64_t{0};
  for (int idle = 0; idle < kIdleSteps && wanted(name);) {
    step = cgroups_.reclaim(name, kStepBytes);
    if (!step.ok()) break;
    taken += *step;
    idle = *step < kWorthBytes ? idle + 1 : 0;
    if (idle > 0) rest();
  }
  Result<void> whole = cgroups_.end_reclaim(name);
  // One that was stopped meanwhile has no group.
  if (step.ok() && !whole.ok()) step = std::move(whole).error();
  auto took = std::chrono::duration_cast<Millis>(Steady::now() - start);
  if (!step.ok()) {
    log::debug("memory not taken to swap", {{"id", name}, {"why", step.error().message()}});
  } else {
    log::info("memory taken to swap", {{"id", name}, {"bytes", taken}, {"ms", took.count()}});
  }
}

void Evictor::rest() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kRest, [this] { return broken_off_; });
}

bool Evictor::wanted(const std::string& name) {
  std::lock_guard lock(mutex_);
  return current_ == name && !broken_off_;
}

}  // namespace atl::runner
