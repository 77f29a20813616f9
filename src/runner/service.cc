// SPDX-License-Identifier: Apache-2.0
#include "runner/service.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/fault.h"
#include "base/log.h"
#include "base/units.h"
#include "runner/labels.h"
#include "runner/names.h"
#include "runner/service_impl.h"
#include "runner/templates.h"
#include "sys/process.h"
#include "sys/seqpacket.h"

namespace atl::runner {
namespace {

constexpr char kRunnerVersion[] = "0.1.0";
constexpr Millis kSlotWait{5'000};
constexpr Millis kRemoveWait{2'000};

// What a request may ask for. Control has its own, tighter bounds.
constexpr std::uint64_t kMinMemory = 16 * kMiB, kMaxMemory = 1024 * kGiB;
constexpr std::uint64_t kMinDisk = 16 * kMiB, kMaxDisk = 4096 * kGiB;
constexpr std::uint32_t kMinCpu = 10, kMaxCpu = 1'024'000;
constexpr std::uint32_t kMinProcesses = 4, kMaxProcesses = 1'000'000;

template <class Request>
Request read_as(std::span<const std::byte> bytes) {
  Request request;
  std::memcpy(&request, bytes.data(), sizeof request);
  return request;
}

std::uint32_t us_since(Steady::time_point& mark) {
  Steady::time_point now = Steady::now();
  auto us = std::chrono::duration_cast<std::chrono::microseconds>(now - mark).count();
  mark = now;
  return static_cast<std::uint32_t>(us);
}

Record record_of(const wire::StartRequest& request, std::uint32_t slot) {
  Record record;
  record.sandbox = request.sandbox;
  record.generation = request.generation;
  record.owner_epoch = request.owner_epoch;
  record.build = request.build;
  record.slot = slot;
  record.memory_bytes = request.memory_bytes;
  record.disk_bytes = request.disk_bytes;
  record.cpu_millis = request.cpu_millis;
  record.tier = request.tier;
  record.internet = request.internet != 0 ? 1 : 0;
  return record;
}

StartSpec spec_of(const wire::StartRequest& request, std::uint64_t launch_id) {
  StartSpec spec;
  spec.sandbox = request.sandbox.str();
  spec.generation = request.generation;
  spec.build = request.build.str();
  spec.limits = {request.memory_bytes, request.cpu_millis, request.processes, request.open_files,
                 request.disk_bytes};
  std::copy(std::begin(request.internal_token), std::end(request.internal_token),
            spec.internal_token.begin());
  spec.launch_id = launch_id;
  return spec;
}

Result<model::NetworkRules> rules_of(const wire::NetworkRequest& request) {
  if (request.allow_count > model::kMaxNetworkRules || request.deny_count > model::kMaxNetworkRules) {
    return make_error(Code::kInvalid, "more than {} network rules", model::kMaxNetworkRules);
  }
  model::NetworkRules rules;
  rules.internet = request.internet != 0;
  auto add = [](std::vector<model::Cidr>& out, const auto& raw) {
    model::Cidr block;
    std::copy(std::begin(raw.address), std::end(raw.address), block.address.begin());
    block.prefix = raw.prefix;
    out.push_back(block);
    // Through the text form and back, so that there is one rule of what a block is.
    return model::parse_cidr(model::format_cidr(block)) == block;
  };
  bool good = true;
  for (std::size_t i = 0; i < request.allow_count; ++i) good = add(rules.allow, request.allow[i]) && good;
  for (std::size_t i = 0; i < request.deny_count; ++i) good = add(rules.deny, request.deny[i]) && good;
  if (!good)
    return make_error(Code::kInvalid, "an address block has bits set below its prefix, or a prefix above 32");
  return rules;
}

}  // namespace

Result<void> check(const wire::StartRequest& request) {
  if (!model::valid_sandbox_id(request.sandbox.str())) return make_error(Code::kInvalid, "not a sandbox id");
  if (!valid_build(request.build.str())) return make_error(Code::kInvalid, "not the id of a template build");
  std::string snapshot = request.snapshot.str();
  if (!snapshot.empty() && !model::valid_snapshot_id(snapshot))
    return make_error(Code::kInvalid, "not the id of a snapshot");
  bool fits = request.memory_bytes >= kMinMemory && request.memory_bytes <= kMaxMemory &&
              request.disk_bytes >= kMinDisk && request.disk_bytes <= kMaxDisk &&
              request.cpu_millis >= kMinCpu && request.cpu_millis <= kMaxCpu &&
              request.processes >= kMinProcesses && request.processes <= kMaxProcesses &&
              request.open_files > 0;
  if (!fits)
    return make_error(Code::kInvalid, "a limit of sandbox {} is out of range", request.sandbox.str());
  return success();
}

Service::Service(Parts parts) : parts_(std::move(parts)) {}

Driver* Service::driver_of(std::uint8_t tier) const {
  for (Driver* driver : parts_.drivers) {
    if (static_cast<std::uint8_t>(driver->tier()) == tier) return driver;
  }
  return nullptr;
}

void Service::handle(std::span<const std::byte> bytes, Steady::time_point arrived, const Send& send) {
  auto answer = [&send](const auto& reply) { send(sys::bytes_of(reply)); };
  wire::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  switch (static_cast<wire::Type>(header.type)) {
    case wire::Type::kHello: {
      wire::HelloReply reply = hello();
      reply.header.id = header.id;
      return answer(reply);
    }
    case wire::Type::kStart: return answer(start(read_as<wire::StartRequest>(bytes), arrived));
    case wire::Type::kStop: return answer(stop(read_as<wire::SandboxRef>(bytes)));
    case wire::Type::kList: return list(read_as<wire::Empty>(bytes), send);
    case wire::Type::kStats: return answer(stats(read_as<wire::SandboxRef>(bytes)));
    case wire::Type::kUsage: return answer(usage(read_as<wire::UsageRequest>(bytes)));
    case wire::Type::kNetwork: return answer(network(read_as<wire::NetworkRequest>(bytes)));
    case wire::Type::kLabels: return answer(labels(read_as<wire::LabelsRequest>(bytes)));
    case wire::Type::kCapacity: return answer(capacity(read_as<wire::CapacityRequest>(bytes)));
    case wire::Type::kPause: return answer(pause(read_as<wire::PauseRequest>(bytes)));
    case wire::Type::kResume: return answer(resume(read_as<wire::StartRequest>(bytes), arrived));
    case wire::Type::kForget: return answer(forget(read_as<wire::BuildRef>(bytes)));
    case wire::Type::kSnapshot: return answer(snapshot(read_as<wire::SnapshotRequest>(bytes)));
    case wire::Type::kDropSnapshot: return answer(drop_snapshot(read_as<wire::SnapshotRef>(bytes)));
    case wire::Type::kListSnapshots: return list_snapshots(read_as<wire::Empty>(bytes), send);
    default: return;  // request_size() knows no others
  }
}

wire::HelloReply Service::hello() const {
  wire::HelloReply reply = reply_to<wire::HelloReply>({}, wire::Type::kHelloReply);
  reply.status.ok = 1;
  reply.runner_version.set(kRunnerVersion);
  reply.pid = static_cast<std::uint32_t>(::getpid());
  reply.slots_total = parts_.slots.total();
  std::lock_guard lock(host_mutex_);
  for (Driver* driver : parts_.drivers) {
    auto bit = static_cast<std::uint8_t>(1u << static_cast<unsigned>(driver->tier()));
    if (tested_.contains(driver->tier())) reply.tested_tiers |= bit;
    if (tested_.contains(driver->tier()) || obstacles_.contains(driver->tier())) continue;
    reply.tiers |= bit;
    if (driver->capabilities().disk_snapshot) reply.disk_snapshot_tiers |= bit;
    if (driver->capabilities().memory_snapshot) reply.memory_tiers |= bit;
    if (driver->capabilities().quiet_memory) reply.quiet_tiers |= bit;
  }
  reply.cgroup_mode = static_cast<std::uint8_t>(parts_.cgroups.mode());
  reply.landlock_abi = static_cast<std::uint8_t>(parts_.landlock_abi);
  reply.features = features_;
  for (const auto& [tier, why] : obstacles_) reply.obstacle[static_cast<std::size_t>(tier)].set(why);
  return reply;
}

// Held from the start: nobody meets it half made.
Result<Service::Held> Service::insert(const std::string& id, std::uint64_t generation) {
  auto sandbox = std::make_shared<Sandbox>(id, generation, next_launch_++);
  Held held{sandbox, std::unique_lock(sandbox->mutex)};
  std::lock_guard lock(mutex_);
  if (sandboxes_.contains(id)) {
    return make_error(Code::kExists, "sandbox {} is there already", id).with_hint("stop it first");
  }
  sandboxes_[id] = sandbox;
  launches_[sandbox->launch_id] = id;
  return held;
}

Result<Service::SandboxPtr> Service::find(const std::string& id, std::uint64_t generation) const {
  std::lock_guard lock(mutex_);
  auto entry = sandboxes_.find(id);
  // Generation 0 stands for any; another one than the living is not what the caller means.
  if (entry == sandboxes_.end() || (generation != 0 && entry->second->generation != generation)) {
    return make_error(Code::kNotFound, "sandbox {} is not here", id);
  }
  return entry->second;
}

// While one waited, it may have ended, or been replaced by the entry with which it boots from its disk.
Result<Service::Held> Service::hold(const std::string& id, std::uint64_t generation) const {
  while (true) {
    TRY(SandboxPtr sandbox, find(id, generation));
    std::unique_lock lock(sandbox->mutex);
    bool meant = generation == 0 || sandbox->generation == generation;
    if (!sandbox->dropped && meant) return Held{std::move(sandbox), std::move(lock)};
  }
}

void Service::drop(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto entry = sandboxes_.find(id);
  if (entry == sandboxes_.end()) return;
  launches_.erase(entry->second->launch_id);
  sandboxes_.erase(entry);
}

wire::StartReply Service::start(const wire::StartRequest& request, Steady::time_point arrived) {
  auto reply = reply_to<wire::StartReply>(request.header, wire::Type::kStartReply);
  Result<void> result = start_sandbox(request, arrived, reply);
  if (!result.ok()) {
    log::warn("sandbox not started", {{"id", request.sandbox.str()}, {"error", result.error().message()}});
  }
  return finished(reply, result);
}

Result<void> Service::start_sandbox(const wire::StartRequest& request, Steady::time_point arrived,
                                    wire::StartReply& reply) {
  Steady::time_point begin = arrived;
  StepTimes times{};
  times[wire::kStepQueue] = us_since(begin);
  TRY_VOID(check(request));
  TRY(Driver * driver, driver_to_start(request.tier));
  std::string id = request.sandbox.str();
  TRY(Held held, insert(id, request.generation));
  const SandboxPtr& sandbox = held.sandbox;
  Result<void> launched = launch(request, *driver, *sandbox, times, nullptr);
  sandbox->phase = Phase::kLive;
  if (launched.ok() && sandbox->ended) {
    launched = make_error(Code::kUnavailable, "the guest daemon of sandbox {} ended at once", id);
  }
  if (!launched.ok()) {
    sandbox->phase = Phase::kStopping;
    Result<void> cleaned = end(*sandbox);
    // What could not be taken back stays in the register, so that nobody else gets it; kStop tries again.
    if (!cleaned.ok())
      log::error("failed start left something", {{"id", id}, {"error", cleaned.error().message()}});
    return std::move(launched).error();
  }
  times[wire::kStepTotal] = us_since(begin);
  fill(reply, *sandbox);
  std::copy(times.begin(), times.end(), reply.step_us);
  FAULT("runner.start.before_reply");
  return success();
}

void Service::fill(wire::StartReply& reply, const Sandbox& sandbox) {
  reply.slot = sandbox.record.slot;
  reply.interface.set(link_name(sandbox.record.slot));
  reply.pid = static_cast<std::uint32_t>(sandbox.record.pid);
  reply.start_ticks = sandbox.record.start_ticks;
}

Result<void> Service::launch(const wire::StartRequest& request, Driver& driver, Sandbox& sandbox,
                             StepTimes& times, const Record* stored) {
  std::string id = request.sandbox.str();
  Steady::time_point mark = Steady::now();
  sandbox.record.tier = request.tier;
  TRY(std::string memory, find_memory(request, driver, stored));
  Leases leases;
  TRY(leases.slot, parts_.slots.lease(kSlotWait));
  FAULT("runner.start.after_slot");
  sandbox.has_slot = true;
  sandbox.record = record_of(request, leases.slot.number);
  if (stored != nullptr) sandbox.record.set_rules(stored->rules());
  TRY_VOID(parts_.records.write(sandbox.record));
  FAULT("runner.start.after_record");
  TRY_VOID(parts_.firewall.apply(leases.slot.number, sandbox.record.rules()));
  FAULT("runner.start.after_rules");
  times[wire::kStepSlot] = us_since(mark);
  TRY(leases.disk, lease_disk(request, driver, stored));
  FAULT("runner.start.after_disk");
  times[wire::kStepDisk] = us_since(mark);
  model::Overhead overhead = driver.overhead();
  TRY(leases.cgroup, parts_.cgroups.create(id, {request.memory_bytes + overhead.memory_bytes,
                                                request.cpu_millis, request.processes + overhead.processes}));
  FAULT("runner.start.after_cgroup");
  times[wire::kStepCgroup] = us_since(mark);
  StartSpec spec = spec_of(request, sandbox.launch_id);
  spec.as_child = stored == nullptr;
  Result<Started> result =
      memory.empty() ? driver.start(spec, leases, times) : driver.restore(spec, leases, memory, times);
  TRY(Started started, std::move(result));
  sandbox.pidfd = std::move(started.pidfd);
  sandbox.record.pid = started.pid;
  sandbox.record.start_ticks = started.start_ticks;
  sandbox.record.label_mark = started.labels ? kLabelMark : 0;
  TRY_VOID(parts_.records.write(sandbox.record));
  FAULT("runner.start.after_complete");
  if (!memory.empty()) return go_on(driver, sandbox, stored);
  if (stored != nullptr) parts_.stored.remove(id);
  return success();
}

// From the first step of its programs on its disk is not the one of its stored memory any more: that is void
// before, and it is whole again where nothing can have run. A runner that dies in between finds the process,
// and the record of it, and lets it go on (takeover.cc).
Result<void> Service::go_on(Driver& driver, Sandbox& sandbox, const Record* stored) {
  if (stored != nullptr) {
    TRY_VOID(parts_.memories.spend(sandbox.id));
    FAULT("runner.restore.after_spent");
  }
  bool may_run = false;
  Result<void> goes = driver.resume(running_of(sandbox), may_run);
  FAULT("runner.restore.after_resume");
  if (stored == nullptr) return goes;
  if (!goes.ok()) {
    TRY_VOID(driver.stop(running_of(sandbox)));
    if (!may_run) TRY_VOID(parts_.memories.give_back(sandbox.id));
    return goes;
  }
  parts_.stored.remove(sandbox.id);
  parts_.memories.drop(sandbox.id);
  return success();
}

Result<std::string> Service::find_memory(const wire::StartRequest& request, const Driver& driver,
                                         const Record* stored) {
  MemoryWanted wanted;
  wanted.build = request.build.str();
  wanted.tier = request.tier;
  wanted.cpu_millis = request.cpu_millis;
  wanted.memory_bytes = request.memory_bytes;
  wanted.disk_bytes = request.disk_bytes;
  wanted.runtime = driver.runtime();
  std::string folder;
  if (stored != nullptr && stored->rest == wire::Rest::kSaved) {
    wanted.sandbox = request.sandbox.str();
    folder = parts_.memories.folder(wanted.sandbox);
  } else if (request.memory != 0 && !request.snapshot.str().empty()) {
    folder = parts_.snapshots.memory_of(request.snapshot.str());
  }
  if (folder.empty()) return folder;
  if (!driver.capabilities().memory_snapshot) return unsupported(driver.tier(), "memory_snapshot");
  TRY_VOID(parts_.memories.checks().require(folder, wanted));
  return folder;
}

Result<Disk> Service::lease_disk(const wire::StartRequest& request, const Driver& driver,
                                 const Record* stored) {
  std::string id = request.sandbox.str(), snapshot = request.snapshot.str();
  bool guest_disk = driver.capabilities().guest_disk;
  if (stored != nullptr && guest_disk) {
    TRY_VOID(parts_.disks.require_unused(id));
    return Disk();
  }
  if (stored != nullptr) return parts_.disks.reopen(id);
  if (snapshot.empty() && guest_disk) return parts_.disks.lease_closed(id, request.disk_bytes);
  if (snapshot.empty()) return parts_.disks.lease(id, request.disk_bytes);
  TRY(SnapshotStore::Opened opened, parts_.snapshots.open(snapshot));
  const SnapshotManifest& manifest = opened.manifest;
  bool fits = manifest.build.str() == request.build.str() && manifest.tier == request.tier &&
              manifest.disk_bytes == disk_size(request.disk_bytes);
  if (fits && guest_disk) return parts_.disks.lease_closed_copy(id, opened.image.get());
  if (fits) return parts_.disks.lease_copy(id, opened.image.get());
  return make_error(Code::kConflict, "snapshot {} was made with another template, tier or disk size",
                    snapshot)
      .with_word("snapshot_mismatch");
}

// Ends what is left of a sandbox and gives everything back, in an order in which nothing is free before its
// user is gone. Each step may have been done before; after a failure the rest stays reserved.
Result<void> Service::end(Sandbox& sandbox) {
  TRY_VOID(let_go(sandbox, KeepDisk::kNo));
  sandbox.dropped = true;
  drop(sandbox.id);
  return success();
}

Result<void> Service::let_go(Sandbox& sandbox, KeepDisk keep) {
  const std::string& id = sandbox.id;
  Driver* driver = driver_of(sandbox.record.tier);
  if (parts_.evictor != nullptr) parts_.evictor->wake(sandbox.id);
  if (driver != nullptr) TRY_VOID(driver->stop(running_of(sandbox)));
  sandbox.oom_kills = parts_.cgroups.oom_kills(id);
  TRY_VOID(parts_.cgroups.remove(id, kRemoveWait));
  FAULT("runner.stop.after_cgroup");
  if (keep == KeepDisk::kYes) {
    TRY_VOID(parts_.disks.settle(id, kRemoveWait));
    TRY_VOID(parts_.stored.complete(id));
  } else {
    parts_.disks.remove(id);
    parts_.stored.remove(id);
    parts_.memories.drop(id);
  }
  FAULT("runner.stop.after_disk");
  if (sandbox.has_slot) {
    TRY_VOID(parts_.firewall.reset(sandbox.record.slot));
    forget_labels(sandbox.record.slot, sandbox.record.label_count());
    FAULT("runner.stop.after_rules");
    parts_.slots.release(sandbox.record.slot);
    sandbox.has_slot = false;
  }
  parts_.records.remove(id);
  FAULT("runner.stop.after_record");
  sandbox.pidfd.reset();
  sandbox.record.pid = 0;
  return success();
}

wire::StopReply Service::stop(const wire::SandboxRef& request) {
  auto reply = reply_to<wire::StopReply>(request.header, wire::Type::kStopReply);
  Result<void> result = stop_sandbox(request, reply);
  return finished(reply, result);
}

Result<void> Service::stop_sandbox(const wire::SandboxRef& request, wire::StopReply& reply) {
  TRY(Held held, hold_uncopied(request));
  const SandboxPtr& sandbox = held.sandbox;
  bool running = !sandbox->ended && sandbox->record.pid != 0;
  sandbox->phase = Phase::kStopping;
  Result<void> done = end(*sandbox);
  if (!done.ok()) {
    sandbox->phase = Phase::kLive;
    return done;
  }
  reply.was_running = running ? 1 : 0;
  reply.oom_kills = sandbox->oom_kills;
  FAULT("runner.stop.before_reply");
  return success();
}

// A copy of it gives up and is waited for.
Result<Service::Held> Service::hold_uncopied(const wire::SandboxRef& request) const {
  while (true) {
    TRY(Held held, hold(request.sandbox.str(), request.generation));
    Sandbox& sandbox = *held.sandbox;
    if (!sandbox.copying) return held;
    sandbox.stop_wanted = true;
    sandbox.copied.wait(held.lock, [&sandbox] { return !sandbox.copying; });
    sandbox.stop_wanted = false;
    // Others may have been quicker: another generation is not what was meant.
    bool meant = request.generation == 0 || sandbox.generation == request.generation;
    if (!sandbox.dropped && meant) return held;
  }
}

void Service::list(const wire::Empty& request, const Send& send) const {
  std::vector<std::string> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, sandbox] : sandboxes_) all.push_back(id);
  }
  for (const std::string& id : all) {
    auto reply = reply_to<wire::ListReply>(request.header, wire::Type::kListReply);
    if (describe(id, reply)) send(sys::bytes_of(reply));
  }
  auto last = reply_to<wire::ListReply>(request.header, wire::Type::kListReply);
  last.status.ok = 1;
  last.last = 1;
  send(sys::bytes_of(last));
}

// False for what has ended meanwhile, and for what was only intended.
bool Service::describe(const std::string& id, wire::ListReply& reply) const {
  Result<Held> held = hold(id, 0);
  if (!held.ok()) return false;
  const Record& record = held->sandbox->record;
  bool stored = wire::on_disk(record.rest) || wire::on_its_way(record.rest);
  if (record.pid == 0 && !stored) return false;
  reply.status.ok = 1;
  reply.alive = held->sandbox->ended && !stored ? 0 : 1;
  reply.rest = static_cast<std::uint8_t>(record.rest);
  reply.tier = record.tier;
  reply.sandbox = record.sandbox;
  reply.generation = record.generation;
  reply.owner_epoch = record.owner_epoch;
  reply.build = record.build;
  reply.slot = stored ? 0 : record.slot;
  reply.interface.set(stored ? "" : link_name(record.slot));
  reply.pid = static_cast<std::uint32_t>(record.pid);
  reply.start_ticks = record.start_ticks;
  reply.kept_bytes = kept_bytes(*held->sandbox);
  return true;
}

wire::StatsReply Service::stats(const wire::SandboxRef& request) {
  auto reply = reply_to<wire::StatsReply>(request.header, wire::Type::kStatsReply);
  Result<void> result = stats_of(request, reply);
  return finished(reply, result);
}

Result<void> Service::stats_of(const wire::SandboxRef& request, wire::StatsReply& reply) {
  std::string id = request.sandbox.str();
  TRY(Held held, hold(id, request.generation));
  const SandboxPtr& sandbox = held.sandbox;
  if (sandbox->ended || sandbox->record.pid == 0)
    return make_error(Code::kNotFound, "sandbox {} does not run", id);
  sys::CgroupUsage usage = parts_.cgroups.usage(id);
  reply.cpu_us = usage.cpu_us;
  reply.memory_used = usage.memory_used;
  reply.memory_cache = usage.memory_cache;
  reply.memory_limit = usage.memory_limit;
  reply.processes = usage.processes;
  reply.oom_kills = usage.oom_kills;
  Driver* driver = driver_of(sandbox->record.tier);
  TRY(auto disk, driver->inspect(running_of(*sandbox)));
  reply.disk_used = disk[0];
  reply.disk_total = disk[1];
  return success();
}

// No lock of a sandbox is taken, so that one that is being stopped or copied keeps nobody waiting; of a name
// that is not ours nothing is read.
wire::UsageReply Service::usage(const wire::UsageRequest& request) const {
  auto reply = reply_to<wire::UsageReply>(request.header, wire::Type::kUsageReply);
  if (request.count > wire::kUsageBatch) {
    Result<void> refused = make_error(Code::kInvalid, "more than {} sandboxes at once", wire::kUsageBatch);
    return finished(reply, refused);
  }
  for (std::size_t i = 0; i < request.count; ++i) {
    std::string id = request.sandbox[i].str();
    reply.cpu_us[i] = wire::kUsageUnknown;
    if (!find(id, 0).ok()) continue;
    if (auto used = parts_.cgroups.cpu_us(id)) reply.cpu_us[i] = *used;
  }
  return finished(reply, success());
}

wire::Done Service::network(const wire::NetworkRequest& request) {
  auto reply = reply_to<wire::Done>(request.header, wire::Type::kDone);
  return finished(reply, set_network(request));
}

Result<void> Service::set_network(const wire::NetworkRequest& request) {
  std::string id = request.sandbox.str();
  TRY(model::NetworkRules rules, rules_of(request));
  TRY(Held held, hold(id, request.generation));
  const SandboxPtr& sandbox = held.sandbox;
  Record changed = sandbox->record;
  changed.set_rules(rules);
  // First the record: a runner that dies in between puts the new rules in force when it comes back.
  RecordStore& records = wire::on_disk(changed.rest) ? parts_.stored : parts_.records;
  TRY_VOID(records.write(changed));
  FAULT("runner.network.after_record");
  sandbox->record = changed;
  if (!sandbox->has_slot) return success();
  TRY_VOID(parts_.firewall.apply(changed.slot, rules));
  FAULT("runner.network.after_rules");
  return success();
}

wire::Done Service::capacity(const wire::CapacityRequest& request) {
  auto reply = reply_to<wire::Done>(request.header, wire::Type::kDone);
  if (request.disk_bytes < kMinDisk || request.disk_bytes > kMaxDisk) {
    return finished(reply, make_error(Code::kInvalid, "the disk size is out of range"));
  }
  parts_.slots.set_ready(request.ready_slots);
  parts_.disks.set_ready(request.disk_bytes, std::min(request.ready_disks, kMaxSlots));
  return finished(reply, success());
}

wire::Done Service::forget(const wire::BuildRef& request) {
  auto reply = reply_to<wire::Done>(request.header, wire::Type::kDone);
  std::string build = request.build.str();
  if (!valid_build(build))
    return finished(reply, make_error(Code::kInvalid, "not the id of a template build"));
  for (Driver* driver : parts_.drivers) driver->forget(build);
  return finished(reply, success());
}

std::optional<wire::ExitedEvent> Service::exited(std::uint64_t launch_id, int wait_status) {
  SandboxPtr sandbox;
  {
    std::lock_guard lock(mutex_);
    auto launch = launches_.find(launch_id);
    if (launch == launches_.end()) return std::nullopt;
    sandbox = sandboxes_.at(launch->second);
  }
  sandbox->ended = true;
  if (sandbox->phase != Phase::kLive) return std::nullopt;
  auto event = reply_to<wire::ExitedEvent>({}, wire::Type::kExited);
  event.sandbox.set(sandbox->id);
  event.generation = sandbox->generation;
  event.wait_status = wait_status;
  event.oom_kills = parts_.cgroups.oom_kills(sandbox->id);
  return event;
}

std::size_t Service::count() const {
  std::lock_guard lock(mutex_);
  auto holds = [](const auto& entry) { return entry.second->phase != Phase::kStored; };
  return static_cast<std::size_t>(std::count_if(sandboxes_.begin(), sandboxes_.end(), holds));
}

}  // namespace atl::runner
