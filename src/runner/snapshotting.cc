// SPDX-License-Identifier: Apache-2.0
//
// Copies of disks of sandboxes. A sandbox stands still from the moment at which all that it has written is on
// its disk until that is copied; all else happens while it runs.
#include <fcntl.h>

#include "base/fault.h"
#include "base/log.h"
#include "runner/service_impl.h"
#include "sys/seqpacket.h"

namespace atl::runner {
namespace {

// The longest that a sandbox may stand still. Without reflinks this bounds how much can be copied.
constexpr Millis kStillBound{30'000};

std::uint32_t us_since(Steady::time_point begin) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - begin).count());
}

}  // namespace

Error being_copied(const std::string& id) {
  return make_error(Code::kConflict, "the disk of sandbox {} is being copied", id)
      .with_word("sandbox_busy")
      .with_hint("try again in a moment");
}

// What begin_copy() saw of a sandbox; stays true until end_copy().
struct Service::CopySource {
  SandboxPtr sandbox;
  Driver& driver;
  Running running;
  wire::Rest rest;
  bool memory;
  SnapshotManifest manifest;
  MemoryManifest memory_manifest;
  model::Limits limits;
};

wire::SnapshotReply Service::snapshot(const wire::SnapshotRequest& request) {
  auto reply = reply_to<wire::SnapshotReply>(request.header, wire::Type::kSnapshotReply);
  Result<void> result = take_snapshot(request, reply);
  if (!result.ok()) {
    log::warn("snapshot not taken", {{"id", request.sandbox.str()}, {"error", result.error().message()}});
  }
  FAULT("runner.snapshot.before_reply");
  return finished(reply, result);
}

Result<void> Service::take_snapshot(const wire::SnapshotRequest& request, wire::SnapshotReply& reply) {
  Steady::time_point begin = Steady::now();
  std::string snapshot = request.snapshot.str();
  if (!model::valid_snapshot_id(snapshot)) return make_error(Code::kInvalid, "not the id of a snapshot");
  TRY(SnapshotStore::Draft draft, parts_.snapshots.begin(snapshot));
  TRY(CopySource source, begin_copy(request));
  FAULT("runner.snapshot.begun");
  Result<void> copied = copy_still(source, draft, reply.still_us);
  end_copy(*source.sandbox);
  FAULT("runner.snapshot.after_copy");
  TRY_VOID(std::move(copied));
  if (source.memory) {
    TRY(std::string folder, draft.memory());
    TRY_VOID(parts_.memories.checks().seal(folder, source.memory_manifest));
  }
  // What a guest's own kernel has written is read by no program of root, and it came to rest whole.
  using Repair = SnapshotStore::Draft::Repair;
  bool guest_disk = source.driver.capabilities().guest_disk;
  TRY_VOID(draft.finish(source.manifest, guest_disk ? Repair::kNo : Repair::kYes));
  reply.disk_bytes = source.manifest.disk_bytes;
  reply.stored_bytes = source.manifest.stored_bytes;
  reply.total_us = us_since(begin);
  return success();
}

// From here to end_copy() the sandbox neither comes to rest nor wakes nor goes away.
Result<Service::CopySource> Service::begin_copy(const wire::SnapshotRequest& request) const {
  std::string id = request.sandbox.str();
  TRY(Held held, hold(id, request.generation));
  Sandbox& sandbox = *held.sandbox;
  const Record& record = sandbox.record;
  Driver* driver = driver_of(record.tier);
  if (driver == nullptr) return make_error(Code::kNotFound, "sandbox {} is not here", id);
  if (sandbox.copying) return being_copied(sandbox.id);
  if (wire::on_its_way(record.rest) || (sandbox.ended && !wire::on_disk(record.rest)))
    return make_error(Code::kConflict, "sandbox {} has ended", sandbox.id).with_word("agent_lost");
  bool memory = request.memory != 0;
  if (!driver->capabilities().disk_snapshot) return unsupported(driver->tier(), "disk_snapshot");
  if (memory && !driver->capabilities().memory_snapshot)
    return unsupported(driver->tier(), "memory_snapshot");
  if (memory) TRY_VOID(require_tested(driver->tier()));
  if (memory && record.rest == wire::Rest::kStored) {
    return make_error(Code::kConflict, "sandbox {} rests on its disk, its memory is gone", id)
        .with_word("memory_gone");
  }
  // In files there is none of its memory, and a guest's own kernel writes nothing out while it is frozen.
  if (record.rest == wire::Rest::kFrozen && (memory || driver->capabilities().guest_disk)) {
    return make_error(Code::kConflict, "sandbox {} rests with its memory in RAM, not in files", id)
        .with_word("memory_in_place")
        .with_hint("resume it first");
  }
  SnapshotManifest manifest;
  manifest.sandbox = record.sandbox;
  manifest.generation = record.generation;
  manifest.build = record.build;
  manifest.tier = record.tier;
  manifest.memory = request.memory != 0 ? 1 : 0;
  sandbox.copying = true;
  return CopySource{held.sandbox, *driver,  running_of(sandbox),          record.rest,
                    memory,       manifest, manifest_of(record, *driver), limits_of(record)};
}

void Service::end_copy(Sandbox& sandbox) {
  {
    std::lock_guard lock(sandbox.mutex);
    sandbox.copying = false;
  }
  sandbox.copied.notify_all();
}

// Memory first, if that is wanted: it brings the sandbox to a standstill.
Result<void> Service::come_to_rest(const CopySource& source, const SnapshotStore::Draft& draft) const {
  if (source.rest == wire::Rest::kSaved && source.memory) {
    TRY(std::string folder, draft.memory());
    return link_memory(parts_.memories.folder(source.sandbox->id), folder);
  }
  if (source.rest == wire::Rest::kFrozen) return source.driver.sync(source.running);
  if (source.rest != wire::Rest::kRuns) return success();
  if (!source.memory) return source.driver.still(source.running);
  TRY(std::string folder, draft.memory());
  return source.driver.save(source.running, source.limits, folder);
}

// What is on the disk when it stands still was put there before, so that little is left to write in that
// time.
Result<void> Service::copy_still(const CopySource& source, const SnapshotStore::Draft& draft,
                                 std::uint32_t& still_us) const {
  const Sandbox& sandbox = *source.sandbox;
  TRY(sys::Fd image, parts_.disks.open_image(sandbox.id, O_RDONLY));
  bool stored = wire::on_disk(source.rest), runs = source.rest == wire::Rest::kRuns;
  if (!stored) TRY_VOID(source.driver.sync(source.running));
  Steady::time_point begin = Steady::now();
  TRY_VOID(come_to_rest(source, draft));
  FAULT("runner.snapshot.still");
  CopyBounds bounds{begin + kStillBound, &sandbox.stop_wanted, true};
  Result<void> copied = copy_sparse(image.get(), draft.image(), bounds);
  // Its disk is taken apart when it ends, and is then not what it was at one moment.
  if (copied.ok() && !stored && sandbox.ended)
    copied = make_error(Code::kConflict, "sandbox {} has ended", sandbox.id).with_word("agent_lost");
  Result<void> goes_on = runs ? source.driver.resume(source.running) : success();
  still_us = us_since(begin);
  if (!goes_on.ok())
    log::error("sandbox stands still", {{"id", sandbox.id}, {"error", goes_on.error().message()}});
  return copied.ok() ? goes_on : copied;
}

wire::Done Service::drop_snapshot(const wire::SnapshotRef& request) {
  auto reply = reply_to<wire::Done>(request.header, wire::Type::kDone);
  std::string snapshot = request.snapshot.str();
  if (!model::valid_snapshot_id(snapshot))
    return finished(reply, make_error(Code::kInvalid, "not the id of a snapshot"));
  return finished(reply, parts_.snapshots.drop(snapshot));
}

void Service::list_snapshots(const wire::Empty& request, const Send& send) const {
  auto last = reply_to<wire::SnapshotListReply>(request.header, wire::Type::kSnapshotListReply);
  last.last = 1;
  auto all = parts_.snapshots.list();
  if (!all.ok()) return send(sys::bytes_of(finished(last, std::move(all).error())));
  for (const SnapshotStore::Listed& one : *all) {
    auto reply = reply_to<wire::SnapshotListReply>(request.header, wire::Type::kSnapshotListReply);
    reply.status.ok = 1;
    reply.snapshot.set(one.id);
    reply.stored_bytes = one.stored_bytes;
    send(sys::bytes_of(reply));
  }
  last.status.ok = 1;
  send(sys::bytes_of(last));
}

}  // namespace atl::runner
