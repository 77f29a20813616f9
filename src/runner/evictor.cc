// SPDX-License-Identifier: Apache-2.0
#include "runner/evictor.h"

#include <algorithm>

#include "base/log.h"

namespace atl::runner {
namespace {

constexpr std::uint64_t kStepBytes = 16 << 20;
// KERNEL: a first look at pages that were used only marks them as old, and pages on their way to swap are not
// free yet; so the end is only where several steps in a row have found next to nothing. Between them others
// have their turn.
constexpr std::uint64_t kWorthBytes = 64 << 10;
constexpr int kIdleSteps = 25;
constexpr Millis kRest{80};

}  // namespace

bool has_swap(std::string_view swaps) {
  std::size_t heading = swaps.find('\n');
  return heading != std::string_view::npos && heading + 1 < swaps.size();
}

Evictor::Evictor(const sys::Cgroups& cgroups)
    : Evictor(
          Means{[&](const std::string& name, std::uint64_t bytes) { return cgroups.reclaim(name, bytes); },
                [&](const std::string& name) { return cgroups.end_reclaim(name); }, kRest}) {}

Evictor::Evictor(Means means) : means_(std::move(means)), thread_([this] { work(); }) {}

Evictor::~Evictor() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (const auto& [name, group] : groups_) end(name, group, std::uint64_t{0});
}

void Evictor::add(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    auto now = Steady::now();
    groups_[name] = Group{now, now};
  }
  changed_.notify_all();
}

void Evictor::wake(const std::string& name) {
  std::unique_lock lock(mutex_);
  auto found = groups_.find(name);
  bool touched = found != groups_.end() || current_ == name;
  Group group = found != groups_.end() ? found->second : Group{};
  if (found != groups_.end()) groups_.erase(found);
  changed_.wait(lock, [&] { return current_ != name; });
  lock.unlock();
  if (touched) end(name, group, std::uint64_t{0});
}

void Evictor::work() {
  std::unique_lock lock(mutex_);
  for (auto next = wait_for_due(lock); next != groups_.end(); next = wait_for_due(lock)) {
    std::string name = next->first;
    current_ = name;
    take_step(lock, name);
    current_.clear();
    changed_.notify_all();
  }
}

// The one that has waited longest; end() when there is nothing to do any more.
Evictor::Groups::iterator Evictor::wait_for_due(std::unique_lock<std::mutex>& lock) {
  while (!ending_) {
    auto next = std::min_element(groups_.begin(), groups_.end(), [](const auto& left, const auto& right) {
      return left.second.due < right.second.due;
    });
    if (next == groups_.end()) {
      changed_.wait(lock);
      continue;
    }
    Steady::time_point due = next->second.due;
    if (due <= Steady::now()) return next;
    changed_.wait_until(lock, due);
  }
  return groups_.end();
}

void Evictor::take_step(std::unique_lock<std::mutex>& lock, const std::string& name) {
  lock.unlock();
  Result<std::uint64_t> step = means_.step(name, kStepBytes);
  lock.lock();
  auto found = groups_.find(name);
  if (found == groups_.end() || !note(found->second, step)) return;
  Group group = found->second;
  groups_.erase(found);
  lock.unlock();
  end(name, group, step);
  lock.lock();
}

// Whether that was the last one.
bool Evictor::note(Group& group, const Result<std::uint64_t>& step) const {
  if (!step.ok()) return true;
  bool worth = *step >= kWorthBytes;
  group.taken += *step;
  group.idle = worth ? 0 : group.idle + 1;
  group.due = Steady::now() + (worth ? Millis(0) : means_.rest);
  return group.idle == kIdleSteps;
}

void Evictor::end(const std::string& name, const Group& group, const Result<std::uint64_t>& last) const {
  Result<void> whole = means_.end(name);
  auto took = std::chrono::duration_cast<Millis>(Steady::now() - group.begun);
  // One that was stopped meanwhile has no group.
  if (!last.ok() || !whole.ok()) {
    const Error& error = last.ok() ? whole.error() : last.error();
    return log::debug("memory not taken to swap", {{"id", name}, {"why", error.message()}});
  }
  if (group.taken > 0)
    log::info("memory taken to swap", {{"id", name}, {"bytes", group.taken}, {"ms", took.count()}});
}

}  // namespace atl::runner
