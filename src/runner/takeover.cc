// SPDX-License-Identifier: Apache-2.0
//
// What a starting runner does with what an earlier one left behind.
#include "base/fault.h"
#include "base/log.h"
#include "runner/service.h"
#include "sys/process.h"

namespace atl::runner {
namespace {
constexpr Millis kSweepWait{5'000};
}

Result<std::set<std::string>> Service::take_over() {
  TRY(std::vector<Record> stored, parts_.stored.read_all());
  TRY(std::vector<Record> records, parts_.records.read_all());
  std::map<std::string, const Record*> on_disk;
  for (const Record& record : stored) on_disk[record.sandbox.str()] = &record;
  for (const Record& record : records) {
    auto of_old = on_disk.find(record.sandbox.str());
    Result<void> taken = take_over_record(record, of_old == on_disk.end() ? nullptr : of_old->second);
    // It stays in the register and keeps its slot; kStop tries again.
    if (!taken.ok()) {
      log::error("left-over sandbox not removed",
                 {{"id", record.sandbox.str()}, {"error", taken.error().message()}});
    }
    FAULT("runner.sweep.after_sandbox");
  }
  for (const Record& record : stored) take_over_stored(record);
  TRY_VOID(sweep_groups());
  std::set<std::string> kept;
  std::map<std::uint32_t, model::NetworkRules> rules;
  std::map<std::uint32_t, std::uint32_t> labels;
  for (const auto& [id, sandbox] : sandboxes_) {
    kept.insert(id);
    if (!sandbox->has_slot) continue;
    rules[sandbox->record.slot] = sandbox->record.rules();
    if (std::uint32_t count = sandbox->record.label_count(); count > 0) labels[sandbox->record.slot] = count;
  }
  TRY_VOID(parts_.memories.sweep(kept));
  for (Driver* driver : parts_.drivers) driver->sweep(kept);
  TRY_VOID(parts_.firewall.install(std::move(rules), std::move(labels)));
  FAULT("runner.sweep.after_rules");
  return kept;
}

// What is known of a sandbox only by its record on disk rests there. Where there is a record of a running one
// too, that one has said what to make of it.
void Service::take_over_stored(const Record& record) {
  std::string id = record.sandbox.str();
  if (sandboxes_.contains(id)) return;
  Result<Held> inserted = insert(id, record.generation);
  if (!inserted.ok()) return;
  Sandbox& sandbox = *inserted->sandbox;
  sandbox.record = record;
  sandbox.ended = true;
  sandbox.phase = Phase::kStored;
  // Of a runner that died when it had just been given up.
  if (record.rest != model::wire::Rest::kSaved) parts_.memories.drop(id);
  log::info("sandbox rests on its disk", {{"id", id}});
}

// The record says how it is to stand; an earlier runner may have died between the word and the deed.
Result<void> Service::take_over_rest(Sandbox& sandbox) {
  using model::wire::Rest;
  if (sandbox.record.rest == Rest::kStoring) return store(sandbox, Rest::kStored);
  Driver* driver = driver_of(sandbox.record.tier);
  if (sandbox.record.rest == Rest::kSaving) return take_over_saving(sandbox, driver);
  if (sandbox.ended || driver == nullptr || !driver->capabilities().pause) return success();
  TRY_VOID(parts_.cgroups.end_reclaim(sandbox.id));
  if (sandbox.record.rest != Rest::kFrozen) return driver->resume(running_of(sandbox));
  TRY_VOID(driver->pause(running_of(sandbox)));
  if (parts_.evictor != nullptr) parts_.evictor->add(sandbox.id);
  return success();
}

// With its files whole it is finished. Else it goes on where it stands, and whoever asked asks again.
Result<void> Service::take_over_saving(Sandbox& sandbox, Driver* driver) {
  if (parts_.memories.has(sandbox.id)) return store(sandbox, model::wire::Rest::kSaved);
  if (sandbox.ended || driver == nullptr) return success();
  TRY_VOID(driver->resume(running_of(sandbox)));
  return set_rest(sandbox, model::wire::Rest::kRuns);
}

// Restored, and on record; nothing of it has run yet, so what is stored is true until it goes on.
Result<void> Service::take_over_restored(Sandbox& sandbox, Driver& driver, const Record& stored) {
  Result<void> goes = go_on(driver, sandbox, &stored);
  if (goes.ok()) return goes;
  log::warn("sandbox goes back to rest", {{"id", sandbox.id}, {"error", goes.error().message()}});
  return put_back(sandbox, stored);
}

// `stored`: what is known of it on the disk; nullptr: nothing.
Result<void> Service::take_over_record(const Record& record, const Record* stored) {
  TRY(Held held, insert(record.sandbox.str(), record.generation));
  const SandboxPtr& sandbox = held.sandbox;
  sandbox->record = record;
  sandbox->has_slot = true;
  parts_.slots.adopt(record.slot);
  if (record.pid == 0) {
    // Only intended: control never heard of it.
    log::info("removing a half-started sandbox", {{"id", record.sandbox.str()}});
    sandbox->ended = true;
    return stored == nullptr ? end(*sandbox) : put_back(*sandbox, *stored);
  }
  Result<sys::Fd> process = sys::open_same_process(record.pid, record.start_ticks);
  sandbox->ended = !process.ok();
  if (process.ok()) sandbox->pidfd = std::move(*process);
  sandbox->adopted = true;
  sandbox->phase = Phase::kLive;
  log::info(sandbox->ended ? "sandbox ended while no runner was there" : "sandbox adopted",
            {{"id", record.sandbox.str()}, {"pid", record.pid}, {"slot", record.slot}});
  if (stored != nullptr && !model::wire::on_its_way(record.rest)) {
    Driver* driver = driver_of(record.tier);
    // It ended before anybody heard that it goes on.
    if (sandbox->ended) return put_back(*sandbox, *stored);
    bool waits = stored->rest == model::wire::Rest::kSaved && parts_.memories.has(sandbox->id);
    if (waits && driver != nullptr) return take_over_restored(*sandbox, *driver, *stored);
    // Once it runs again, what is on its disk changes: the record of how it rested is void.
    parts_.stored.remove(record.sandbox.str());
    parts_.memories.drop(record.sandbox.str());
  }
  return take_over_rest(*sandbox);
}

Result<void> Service::sweep_groups() {
  for (const std::string& name : parts_.cgroups.list()) {
    if (sandboxes_.contains(name)) continue;
    parts_.cgroups.kill(name);
    if (!parts_.cgroups.wait_empty(name, kSweepWait)) {
      log::error("left-over cgroup still has processes", {{"name", name}});
      continue;
    }
    Result<void> removed = parts_.cgroups.remove(name, kSweepWait);
    if (!removed.ok()) log::error("left-over cgroup not removed", {{"error", removed.error().message()}});
    FAULT("runner.sweep.after_group");
  }
  return success();
}

std::map<std::uint64_t, sys::Fd> Service::adopted() const {
  std::lock_guard lock(mutex_);
  std::map<std::uint64_t, sys::Fd> out;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (!sandbox->adopted || sandbox->ended) continue;
    Result<sys::Fd> copy = sandbox->pidfd.duplicate();
    if (copy.ok()) out[sandbox->launch_id] = std::move(*copy);
  }
  return out;
}

}  // namespace atl::runner
