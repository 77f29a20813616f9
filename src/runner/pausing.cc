// SPDX-License-Identifier: Apache-2.0
//
// How a sandbox comes to rest, in memory or on its disk, and how it goes on. The record is changed before the
// kernel is, so that a runner that dies in between makes its word true when it comes back.
#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "runner/service_impl.h"

namespace atl::runner {
namespace {

Error not_here(const std::string& id) { return make_error(Code::kNotFound, "sandbox {} is not here", id); }

Error not_paused(const std::string& id) {
  return make_error(Code::kConflict, "sandbox {} is not paused", id).with_word("not_paused");
}

}  // namespace

Result<void> Service::set_rest(Sandbox& sandbox, wire::Rest rest) {
  Record changed = sandbox.record;
  changed.rest = rest;
  TRY_VOID(parts_.records.write(changed));
  sandbox.record = changed;
  return success();
}

wire::Done Service::pause(const wire::PauseRequest& request) {
  auto reply = reply_to<wire::Done>(request.header, wire::Type::kDone);
  Result<void> result = pause_sandbox(request);
  if (!result.ok()) {
    log::warn("sandbox not paused", {{"id", request.sandbox.str()}, {"error", result.error().message()}});
  }
  FAULT("runner.pause.before_reply");
  return finished(reply, result);
}

// May be repeated: what is at rest already stays so. One that rests in memory can still be sent to its disk.
Result<void> Service::pause_sandbox(const wire::PauseRequest& request) {
  std::string id = request.sandbox.str();
  TRY(Held held, hold(id, request.generation));
  const SandboxPtr& sandbox = held.sandbox;
  if (sandbox->copying) return being_copied(id);
  wire::Rest rest = sandbox->record.rest;
  bool memory = request.memory != 0;
  if (memory && (rest == wire::Rest::kStored || rest == wire::Rest::kStoring)) {
    return make_error(Code::kConflict, "sandbox {} rests on its disk, its memory is gone", id)
        .with_word("memory_gone");
  }
  if (rest == wire::Rest::kStored) return success();
  if (sandbox->ended && rest != wire::Rest::kStoring) {
    return make_error(Code::kConflict, "sandbox {} has ended", id).with_word("agent_lost");
  }
  Driver* driver = driver_of(sandbox->record.tier);
  if (driver == nullptr) return not_here(id);
  if (!memory) return store(*sandbox);
  if (!driver->capabilities().pause) return unsupported(driver->tier(), "pause");
  return freeze(*sandbox, *driver);
}

Result<void> Service::freeze(Sandbox& sandbox, Driver& driver) {
  TRY_VOID(set_rest(sandbox, wire::Rest::kFrozen));
  FAULT("runner.pause.after_record");
  Result<void> paused = driver.pause({sandbox.id, sandbox.record.pid, sandbox.pidfd.get()});
  FAULT("runner.pause.after_freeze");
  if (paused.ok()) return paused;
  TRY_VOID(set_rest(sandbox, wire::Rest::kRuns));
  return paused;
}

// Ends all processes, keeps the disk and gives the rest back. When a step fails the sandbox is neither
// running nor stored; the request may be repeated, and stop works.
Result<void> Service::store(Sandbox& sandbox) {
  sandbox.phase = Phase::kStopping;
  TRY_VOID(set_rest(sandbox, wire::Rest::kStoring));
  FAULT("runner.store.after_record");
  TRY_VOID(let_go(sandbox, KeepDisk::kYes));
  sandbox.record.rest = wire::Rest::kStored;
  sandbox.ended = true;
  sandbox.phase = Phase::kStored;
  return success();
}

wire::StartReply Service::resume(const wire::StartRequest& request, Steady::time_point arrived) {
  auto reply = reply_to<wire::StartReply>(request.header, wire::Type::kStartReply);
  Result<void> result = resume_sandbox(request, arrived, reply);
  if (!result.ok()) {
    log::warn("sandbox not resumed", {{"id", request.sandbox.str()}, {"error", result.error().message()}});
  }
  FAULT("runner.resume.before_reply");
  return finished(reply, result);
}

// May be repeated with the same generation.
Result<void> Service::resume_sandbox(const wire::StartRequest& request, Steady::time_point arrived,
                                     wire::StartReply& reply) {
  std::string id = request.sandbox.str();
  TRY_VOID(check(request));
  TRY(Held held, hold(id, 0));
  const SandboxPtr& sandbox = held.sandbox;
  const Record& record = sandbox->record;
  if (sandbox->copying) return being_copied(id);
  if (request.build.str() != record.build.str() || request.tier != record.tier) {
    return make_error(Code::kConflict, "sandbox {} is of another build or tier", id);
  }
  if (request.generation < sandbox->generation) {
    return make_error(Code::kConflict, "generation {} of sandbox {} is over", request.generation, id);
  }
  Driver* driver = driver_of(record.tier);
  if (driver == nullptr) return not_here(id);
  if (record.rest == wire::Rest::kStored) {
    if (obstacles_.contains(driver->tier())) return no_tier(record.tier);
    StepTimes times{};
    TRY(SandboxPtr booted, boot_stored(sandbox, request, *driver, times));
    times[wire::kStepTotal] = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - arrived).count());
    std::copy(times.begin(), times.end(), reply.step_us);
    fill(reply, *booted);
    return success();
  }
  bool repeated = record.rest == wire::Rest::kRuns && request.generation == sandbox->generation;
  if (sandbox->ended || (record.rest != wire::Rest::kFrozen && !repeated)) return not_paused(id);
  TRY_VOID(thaw(*sandbox, request, *driver));
  fill(reply, *sandbox);
  return success();
}

Result<void> Service::thaw(Sandbox& sandbox, const wire::StartRequest& request, Driver& driver) {
  Record changed = sandbox.record;
  changed.rest = wire::Rest::kRuns;
  changed.generation = request.generation;
  changed.owner_epoch = request.owner_epoch;
  TRY_VOID(parts_.records.write(changed));
  FAULT("runner.resume.after_record");
  sandbox.record = changed;
  sandbox.generation = request.generation;
  TRY_VOID(driver.resume({sandbox.id, changed.pid, sandbox.pidfd.get()}));
  FAULT("runner.resume.after_thaw");
  return success();
}

// In the place of a stored one in the register: a new entry, since a launch has a number of its own.
// Whoever waits for the old one looks again.
Service::Held Service::renew(Sandbox& sandbox, std::uint64_t generation) {
  auto fresh = std::make_shared<Sandbox>(sandbox.id, generation, next_launch_++);
  Held held{fresh, std::unique_lock(fresh->mutex)};
  std::lock_guard lock(mutex_);
  launches_.erase(sandbox.launch_id);
  launches_[fresh->launch_id] = sandbox.id;
  sandboxes_[sandbox.id] = fresh;
  sandbox.dropped = true;
  return held;
}

Result<Service::SandboxPtr> Service::boot_stored(const SandboxPtr& sandbox, const wire::StartRequest& request,
                                                 Driver& driver, StepTimes& times) {
  Held held = renew(*sandbox, request.generation);
  const SandboxPtr& fresh = held.sandbox;
  Result<void> launched = launch(request, driver, *fresh, times, &sandbox->record);
  fresh->phase = Phase::kLive;
  if (launched.ok() && fresh->ended) {
    launched = make_error(Code::kUnavailable, "the guest daemon of sandbox {} ended at once", fresh->id);
  }
  if (launched.ok()) return fresh;
  // Back to rest. What could not be taken back is tried again by the next pause or stop.
  if (!fresh->has_slot) fresh->record = sandbox->record;
  fresh->record.generation = fresh->generation;
  Result<void> rests = store(*fresh);
  if (!rests.ok())
    log::error("failed resume left something", {{"id", fresh->id}, {"error", rests.error().message()}});
  return std::move(launched).error();
}

}  // namespace atl::runner
