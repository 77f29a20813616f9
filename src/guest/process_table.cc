// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/log.h"
#include "guest/process.h"
#include "guest/session.h"

namespace atl::guest {

ProcessTable::ProcessTable(async::Executor executor, Workers& workers, OomCounter oom,
                           Steady::duration subscriber_stall)
    : executor_(executor),
      workers_(workers),
      oom_(oom),
      scope_(executor),
      subscriber_stall_(subscriber_stall) {}

ProcessTable::~ProcessTable() = default;

Task<Result<ProcessPtr>> ProcessTable::start(Start start) {
  if (alive_.size() + starting_ >= kMaxProcesses)
    co_return make_error(Code::kExhausted, "{} processes run already", alive_.size() + starting_);
  ++starting_;
  Before before{oom_.read(), exits_};
  auto spawned = co_await workers_.run([&start]() -> Result<Spawned> {
    TRY(SpawnRequest request, start.prepare());
    return spawn(request);
  });
  --starting_;
  Result<ProcessPtr> result = [&]() -> Result<ProcessPtr> {
    if (!spawned.ok()) return std::move(spawned).error();
    return admit(std::move(start), std::move(*spawned), before);
  }();
  if (starting_ == 0) early_exits_.clear();
  co_return result;
}

ProcessPtr ProcessTable::admit(Start start, Spawned spawned, Before before) {
  pid_t pid = spawned.pid;
  auto process = std::make_shared<Process>(executor_, std::move(start.config), std::move(spawned),
                                           before.oom_kills, subscriber_stall_);
  alive_[pid] = process;
  if (!process->config().service) last_change_ = Steady::now();
  share_memory();
  for (auto& output : process->outputs_) scope_.spawn("process output", process->pump(process, output));
  process->deadline_ = start.deadline;
  if (start.deadline) scope_.spawn("process deadline", watch_deadline(process));
  auto early = early_exits_.find(pid);
  if (early != early_exits_.end() && early->second.number > before.exits)
    on_exit(pid, early->second.wait_status);
  return process;
}

void ProcessTable::on_exit(pid_t pid, int wait_status) {
  auto found = alive_.find(pid);
  if (found == alive_.end()) {
    if (starting_ > 0) early_exits_[pid] = {wait_status, ++exits_};
    return;
  }
  ProcessPtr process = found->second;
  alive_.erase(found);
  if (!process->config().service) last_change_ = Steady::now();
  if (retained_.empty()) scope_.spawn("process retention", retire());
  retained_.push_back({process, Steady::now() + kRetention});
  make_room();
  process->on_reaped(wait_status);
  scope_.spawn("process end", process->conclude(process, oom_));
}

// Runs while there are retained processes.
Task<> ProcessTable::retire() {
  while (!retained_.empty() && !scope_.cancelled()) {
    auto left = retained_.front().until - Steady::now();
    if (left > Steady::duration::zero()) {
      co_await async::sleep_for(left);
    } else if (retained_.front().process->outcome()) {
      forget(retained_.begin());
    } else {
      ProcessPtr process = retained_.front().process;
      co_await process->changed_.wait();
    }
  }
}

void ProcessTable::make_room() {
  for (;;) {
    std::size_t bytes = 0;
    for (const Retained& each : retained_) bytes += each.process->ring().size();
    if (retained_.size() <= kMaxRetained && (bytes <= kRetainedBytes || retained_.size() == 1)) return;
    // One that has not been concluded still owes its readers output, and will not for long.
    auto ended = std::find_if(retained_.begin(), retained_.end(),
                              [](const Retained& r) { return r.process->outcome(); });
    if (ended == retained_.end()) return;
    forget(ended);
  }
}

void ProcessTable::forget(std::list<Retained>::iterator which) {
  ProcessPtr held = std::move(which->process);
  retained_.erase(which);
  held->forget();
  holders_.remove_if([](const std::weak_ptr<Process>& process) { return process.expired(); });
  if (!held->held_open()) return;
  holders_.push_back(held);
  if (holders_.size() <= kMaxHolders) return;
  if (ProcessPtr oldest = holders_.front().lock()) oldest->close_outputs();
  holders_.pop_front();
}

Task<> ProcessTable::watch_deadline(ProcessPtr process) {
  while (!process->reaped()) {
    if (held_since_) {
      co_await process->changed_.wait();
      continue;
    }
    if (Steady::now() >= *process->deadline_) {
      process->expire();
      co_return;
    }
    co_await process->changed_.wait_until(*process->deadline_);
  }
}

void ProcessTable::hold_clocks() {
  if (!held_since_) held_since_ = Steady::now();
}

void ProcessTable::release_clocks() {
  if (!held_since_) return;
  auto rested = Steady::now() - *held_since_;
  held_since_.reset();
  for (auto& [pid, process] : alive_) {
    if (process->deadline_) *process->deadline_ += rested;
    process->changed_.notify_all();
  }
}

// All rings together stay near their total, however many processes there are.
void ProcessTable::share_memory() {
  std::size_t share =
      std::clamp(kRingTotal / std::max<std::size_t>(alive_.size(), 1), kRingFloor, kRingBytes);
  for (auto& [pid, process] : alive_) process->capacity_ = share;
}

ProcessPtr ProcessTable::find(pid_t pid) const {
  if (auto found = alive_.find(pid); found != alive_.end()) return found->second;
  auto ended = std::find_if(retained_.rbegin(), retained_.rend(),
                            [&](const Retained& r) { return r.process->pid() == pid; });
  return ended == retained_.rend() ? nullptr : ended->process;
}

ProcessPtr ProcessTable::find(std::string_view tag) const {
  for (const auto& [pid, process] : alive_) {
    if (process->config().tag == tag) return process;
  }
  auto ended = std::find_if(retained_.rbegin(), retained_.rend(),
                            [&](const Retained& r) { return r.process->config().tag == tag; });
  return ended == retained_.rend() ? nullptr : ended->process;
}

std::vector<ProcessPtr> ProcessTable::alive() const {
  std::vector<ProcessPtr> out;
  for (const auto& [pid, process] : alive_) out.push_back(process);
  std::sort(out.begin(), out.end(),
            [](const ProcessPtr& a, const ProcessPtr& b) { return a->pid() < b->pid(); });
  return out;
}

Task<> ProcessTable::shut_down() {
  for (const ProcessPtr& process : alive()) kill_session(process->pid());
  scope_.cancel();
  co_await scope_.join();
}

}  // namespace atl::guest
