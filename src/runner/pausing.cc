// SPDX-License-Identifier: Apache-2.0
//
// How a sandbox comes to rest, in memory or on its disk, and how it goes on. The record is changed before the
// kernel is, so that a runner that dies in between makes its word true when it comes back.
#include <fcntl.h>

#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "runner/image_copy.h"
#include "runner/service_impl.h"

namespace atl::runner {
namespace {

Error not_here(const std::string& id) { return make_error(Code::kNotFound, "sandbox {} is not here", id); }

Error memory_gone(const std::string& id) {
  return make_error(Code::kConflict, "sandbox {} rests on its disk, its memory is gone", id)
      .with_word("memory_gone");
}

Error not_paused(const std::string& id) {
  return make_error(Code::kConflict, "sandbox {} is not paused", id).with_word("not_paused");
}

}  // namespace

MemoryManifest manifest_of(const Record& record, const Driver& driver) {
  MemoryManifest manifest;
  manifest.sandbox = record.sandbox;
  manifest.generation = record.generation;
  manifest.build = record.build;
  manifest.tier = record.tier;
  manifest.cpu_millis = record.cpu_millis;
  manifest.memory_bytes = record.memory_bytes;
  manifest.disk_bytes = record.disk_bytes;
  manifest.runtime.set(driver.runtime());
  return manifest;
}

model::Limits limits_of(const Record& record) {
  model::Limits limits;
  limits.memory_bytes = record.memory_bytes;
  limits.cpu_millis = record.cpu_millis;
  limits.disk_bytes = record.disk_bytes;
  return limits;
}

Result<void> Service::set_rest(Sandbox& sandbox, wire::Rest rest) {
  Record changed = sandbox.record;
  changed.rest = rest;
  TRY_VOID(parts_.records.write(changed));
  sandbox.record = changed;
  return success();
}

wire::PauseReply Service::pause(const wire::PauseRequest& request) {
  auto reply = reply_to<wire::PauseReply>(request.header, wire::Type::kPauseReply);
  Result<void> result = pause_sandbox(request, reply);
  if (!result.ok()) {
    log::warn("sandbox not paused", {{"id", request.sandbox.str()}, {"error", result.error().message()}});
  }
  FAULT("runner.pause.before_reply");
  return finished(reply, result);
}

// May be repeated: what is at rest already stays so. One that rests with its memory can still be sent to its
// disk.
Result<void> Service::pause_sandbox(const wire::PauseRequest& request, wire::PauseReply& reply) {
  std::string id = request.sandbox.str();
  TRY(Held held, hold(id, request.generation));
  Sandbox& sandbox = *held.sandbox;
  if (sandbox.copying) return being_copied(id);
  wire::Rest rest = sandbox.record.rest;
  bool memory = request.memory != 0;
  if (memory && (rest == wire::Rest::kStored || rest == wire::Rest::kStoring)) return memory_gone(id);
  if (sandbox.ended && !wire::on_disk(rest) && !wire::on_its_way(rest)) {
    return make_error(Code::kConflict, "sandbox {} has ended", id).with_word("agent_lost");
  }
  Driver* driver = driver_of(sandbox.record.tier);
  if (driver == nullptr) return not_here(id);
  Result<void> done = success();
  if (rest == wire::Rest::kSaved && !memory) {
    done = forget_memory(sandbox);
  } else if (!wire::on_disk(rest) && !memory) {
    done = store(sandbox, wire::Rest::kStored);
  } else if (!wire::on_disk(rest)) {
    bool files =
        driver->capabilities().memory_snapshot && rest != wire::Rest::kFrozen && request.in_place == 0;
    done = files ? save_or_freeze(sandbox, *driver) : freeze(sandbox, *driver);
  }
  fill(reply, sandbox);
  return done;
}

// What cannot be measured is left out, and said.
std::uint64_t Service::kept_bytes(const Sandbox& sandbox) const {
  if (!wire::on_disk(sandbox.record.rest)) return 0;
  Result<sys::Fd> image = parts_.disks.open_image(sandbox.id, O_RDONLY);
  Result<std::uint64_t> disk = image.ok() ? stored_bytes(image->get()) : Result<std::uint64_t>(image.error());
  Result<std::uint64_t> memory = std::uint64_t{0};
  if (sandbox.record.rest == wire::Rest::kSaved) memory = memory_bytes(parts_.memories.folder(sandbox.id));
  for (const auto* part : {&disk, &memory}) {
    if (!part->ok())
      log::warn("cannot tell what a sandbox keeps on disk",
                {{"id", sandbox.id}, {"error", part->error().message()}});
  }
  return std::move(disk).value_or(0) + std::move(memory).value_or(0);
}

void Service::fill(wire::PauseReply& reply, const Sandbox& sandbox) const {
  reply.rest = sandbox.record.rest;
  reply.kept_bytes = kept_bytes(sandbox);
  if (reply.rest != wire::Rest::kFrozen || !sandbox.not_saved) return;
  reply.obstacle.set(sandbox.not_saved->word().empty() ? "not_stored" : sandbox.not_saved->word());
  reply.why.set(sandbox.not_saved->message());
}

Result<void> Service::freeze(Sandbox& sandbox, Driver& driver) {
  if (!driver.capabilities().pause) return unsupported(driver.tier(), "pause");
  TRY_VOID(set_rest(sandbox, wire::Rest::kFrozen));
  FAULT("runner.pause.after_record");
  Result<void> paused = driver.pause(running_of(sandbox));
  FAULT("runner.pause.after_freeze");
  if (paused.ok() && parts_.evictor != nullptr) parts_.evictor->add(sandbox.id);
  if (paused.ok()) return paused;
  TRY_VOID(set_rest(sandbox, wire::Rest::kRuns));
  return paused;
}

// What stands still in RAM goes on, with all of its memory.
Result<void> Service::wake(Sandbox& sandbox, Driver& driver) {
  if (parts_.evictor != nullptr) parts_.evictor->wake(sandbox.id);
  return driver.resume(running_of(sandbox));
}

// That memory cannot be in files now is no reason to stay awake; the reply says why it is not.
Result<void> Service::save_or_freeze(Sandbox& sandbox, Driver& driver) {
  Result<void> saved = require_tested(driver.tier());
  if (saved.ok()) saved = save(sandbox, driver);
  bool runs = sandbox.record.rest == wire::Rest::kRuns && !sandbox.ended;
  if (saved.ok() || !runs || !driver.capabilities().pause) return saved;
  log::info("memory stays in place", {{"id", sandbox.id}, {"why", saved.error().message()}});
  sandbox.not_saved = std::move(saved).error();
  return freeze(sandbox, driver);
}

// Memory to files, then as store(). Until the files are whole it can go on where it stands.
Result<void> Service::save(Sandbox& sandbox, Driver& driver) {
  if (sandbox.record.rest == wire::Rest::kSaving && parts_.memories.has(sandbox.id))
    return store(sandbox, wire::Rest::kSaved);
  if (sandbox.ended)
    return make_error(Code::kConflict, "sandbox {} has ended", sandbox.id).with_word("agent_lost");
  TRY_VOID(set_rest(sandbox, wire::Rest::kSaving));
  FAULT("runner.save.after_record");
  Running running = running_of(sandbox);
  MemoryManifest manifest = manifest_of(sandbox.record, driver);
  Result<std::string> folder = parts_.memories.begin(sandbox.id);
  Result<void> saved = folder.ok() ? driver.save(running, limits_of(sandbox.record), *folder)
                                   : Result<void>(std::move(folder).error());
  FAULT("runner.save.after_save");
  if (saved.ok()) {
    saved = parts_.memories.keep(sandbox.id, manifest);
    if (saved.ok()) saved = parts_.stored.prepare(rested(sandbox, wire::Rest::kSaved));
    // What was not kept for sure must not meet a disk that has changed since.
    if (!saved.ok()) parts_.memories.drop(sandbox.id);
    if (!saved.ok()) TRY_VOID(driver.resume(running));
  }
  FAULT("runner.save.after_keep");
  if (saved.ok()) return end_at_rest(sandbox, wire::Rest::kSaved);
  parts_.memories.drop(sandbox.id);
  TRY_VOID(set_rest(sandbox, wire::Rest::kRuns));
  return saved;
}

// It rests on its disk alone from here on.
Result<void> Service::forget_memory(Sandbox& sandbox) {
  Record changed = sandbox.record;
  changed.rest = wire::Rest::kStored;
  TRY_VOID(parts_.stored.write(changed));
  FAULT("runner.forget.after_record");
  sandbox.record = changed;
  parts_.memories.drop(sandbox.id);
  return success();
}

// What is to be known of it on the disk, whatever becomes of the machine.
Record Service::rested(const Sandbox& sandbox, wire::Rest result) {
  Record record = sandbox.record;
  record.rest = result;
  record.pid = 0;
  return record;
}

// Where there is no room to say on the disk that it rests, it stays as it is. `result`: kStored, or kSaved
// where the memory is in its files.
Result<void> Service::store(Sandbox& sandbox, wire::Rest result) {
  TRY_VOID(parts_.stored.prepare(rested(sandbox, result)));
  return end_at_rest(sandbox, result);
}

// What did not go on after all. Where there is no room for a new record that of old is still true.
Result<void> Service::put_back(Sandbox& sandbox, const Record& stored) {
  bool saved = stored.rest == wire::Rest::kSaved && parts_.memories.has(sandbox.id);
  wire::Rest result = saved ? wire::Rest::kSaved : wire::Rest::kStored;
  Result<void> prepared = parts_.stored.prepare(rested(sandbox, result));
  if (!prepared.ok()) {
    log::warn("record of old stays", {{"id", sandbox.id}, {"error", prepared.error().message()}});
  }
  return end_at_rest(sandbox, result);
}

// Ends all processes, keeps the disk and gives the rest back; its record for then is prepared. When a step
// fails the sandbox is neither running nor stored; the request may be repeated, and stop works.
Result<void> Service::end_at_rest(Sandbox& sandbox, wire::Rest result) {
  sandbox.phase = Phase::kStopping;
  bool saved = result == wire::Rest::kSaved;
  wire::Rest on_its_way = saved ? wire::Rest::kSaving : wire::Rest::kStoring;
  // Where it has no slot, the number of the one that it had may be another's: no record names it.
  if (sandbox.has_slot) {
    TRY_VOID(set_rest(sandbox, on_its_way));
  } else {
    sandbox.record.rest = on_its_way;
  }
  FAULT("runner.store.after_record");
  TRY_VOID(let_go(sandbox, KeepDisk::kYes));
  if (!saved) parts_.memories.drop(sandbox.id);
  sandbox.record.rest = result;
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
  if (record.rest == wire::Rest::kStored && request.memory != 0)
    return memory_gone(id).with_hint("a resume without memory boots from the disk");
  if (wire::on_disk(record.rest)) {
    TRY(driver, driver_to_start(record.tier));
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
  sandbox.not_saved.reset();
  TRY_VOID(wake(sandbox, driver));
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
  Result<void> rests = put_back(*fresh, sandbox->record);
  if (!rests.ok())
    log::error("failed resume left something", {{"id", fresh->id}, {"error", rests.error().message()}});
  return std::move(launched).error();
}

}  // namespace atl::runner
