// SPDX-License-Identifier: Apache-2.0
//
// The runner's service: what each request does. Owns the register of sandboxes; takes leases of slots, disks
// and cgroups and gives them to the driver of the wanted tier. Requests may be handled on several threads at
// once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/runner_protocol.h"
#include "runner/disks.h"
#include "runner/driver.h"
#include "runner/evictor.h"
#include "runner/firewall.h"
#include "runner/launcher.h"
#include "runner/records.h"
#include "runner/slots.h"
#include "runner/snapshots.h"
#include "runner/stored_memory.h"
#include "sys/cgroup.h"

namespace atl::runner {

// The parts a service works with; all outlive it.
struct Parts {
  SlotPool& slots;
  DiskPool& disks;
  Firewall& firewall;
  sys::Cgroups& cgroups;
  RecordStore& records;
  SnapshotStore& snapshots;
  MemoryStore& memories;
  RecordStore& stored;  // of sandboxes that rest on disk: these outlive the machine
  std::vector<Driver*> drivers;
  Evictor* evictor = nullptr;  // none: memory of those that rest stays in RAM
  int landlock_abi = 0;
};

class Service {
 public:
  explicit Service(Parts parts);

  // Takes over what an earlier runner left: living sandboxes are adopted, dead ones held until they are
  // stopped, half-started ones and everything without a record removed. Call once, before the pools start.
  // Returns the ids whose disks must stay.
  Result<std::set<std::string>> take_over();

  // Nothing of this tier is started, for this reason; what runs is not touched. Call before serving.
  void set_obstacle(model::Tier tier, const std::string& why) { obstacles_[tier] = why; }
  // What hello tells of the host. Call before serving.
  void set_features(const model::HostFeatures& host) { features_ = host; }
  bool offers(model::Tier tier) const { return driver_of(static_cast<std::uint8_t>(tier)) != nullptr; }
  // Between these nothing of the tier is started, because nobody knows yet whether it can be. At any time,
  // from any thread.
  void begin_test(model::Tier tier);
  void end_test(model::Tier tier, const Result<void>& outcome, const model::HostFeatures& host);
  // What is known of the host now.
  model::wire::HelloReply hello() const;

  using Send = std::function<void(std::span<const std::byte>)>;
  // Answers one request (its size and magic have been checked) with one or more messages. `arrived`: when it
  // was read.
  void handle(std::span<const std::byte> request, Steady::time_point arrived, const Send& send);

  // PID 1 of a launch has ended. The event for control, unless a start or stop is under way, which will tell
  // by its reply.
  std::optional<model::wire::ExitedEvent> exited(std::uint64_t launch_id, int wait_status);

  // Adopted sandboxes, whose end only a pidfd tells: pidfds by launch id.
  std::map<std::uint64_t, sys::Fd> adopted() const;
  std::size_t count() const;  // of those that hold a slot

 private:
  // kStopping and kStored (with or without memory): the end of PID 1 is our doing.
  enum class Phase { kStarting, kLive, kStopping, kStored };
  struct Sandbox {
    Sandbox(std::string sandbox_id, std::uint64_t its_generation, std::uint64_t launch)
        : id(std::move(sandbox_id)), generation(its_generation), launch_id(launch) {}
    const std::string id;
    std::atomic<std::uint64_t> generation;  // changes under `mutex`
    const std::uint64_t launch_id;
    std::atomic<Phase> phase{Phase::kStarting};
    std::atomic<bool> ended{false};  // PID 1 is gone
    std::mutex mutex;                // held while a request works on it; guards what follows
    Record record;
    sys::Fd pidfd;  // none when PID 1 was gone before we came
    bool adopted = false;
    bool dropped = false;  // nothing is left of it; the entry is no longer in the register
    bool has_slot = false;
    bool copying = false;  // its disk is being copied, without the mutex: it must stay as it is
    std::uint32_t oom_kills = 0;
    std::optional<Error> not_saved;        // while it is frozen: why its memory is not in files
    std::condition_variable copied;        // `copying` has ended
    std::atomic<bool> stop_wanted{false};  // a copy gives up
  };
  using SandboxPtr = std::shared_ptr<Sandbox>;
  // A sandbox of the register with its mutex held, and not dropped.
  struct Held {
    SandboxPtr sandbox;
    std::unique_lock<std::mutex> lock;
  };

  model::wire::StartReply start(const model::wire::StartRequest& request, Steady::time_point arrived);
  model::wire::StopReply stop(const model::wire::SandboxRef& request);
  void list(const model::wire::Empty& request, const Send& send) const;
  bool describe(const std::string& id, model::wire::ListReply& reply) const;
  model::wire::StatsReply stats(const model::wire::SandboxRef& request);
  model::wire::UsageReply usage(const model::wire::UsageRequest& request) const;
  model::wire::Done network(const model::wire::NetworkRequest& request);
  model::wire::Done labels(const model::wire::LabelsRequest& request);
  model::wire::Done capacity(const model::wire::CapacityRequest& request);
  model::wire::Done forget(const model::wire::BuildRef& request);
  model::wire::PauseReply pause(const model::wire::PauseRequest& request);
  model::wire::StartReply resume(const model::wire::StartRequest& request, Steady::time_point arrived);

  Result<void> start_sandbox(const model::wire::StartRequest& request, Steady::time_point arrived,
                             model::wire::StartReply& reply);
  // `stored`: what it was when it came to rest on its disk; nullptr for a new one.
  Result<void> launch(const model::wire::StartRequest& request, Driver& driver, Sandbox& sandbox,
                      StepTimes& times, const Record* stored);
  static void fill(model::wire::StartReply& reply, const Sandbox& sandbox);
  Result<void> stop_sandbox(const model::wire::SandboxRef& request, model::wire::StopReply& reply);
  Result<void> stats_of(const model::wire::SandboxRef& request, model::wire::StatsReply& reply);
  Result<void> set_network(const model::wire::NetworkRequest& request);
  Result<void> set_labels(const model::wire::LabelsRequest& request);
  Result<void> end(Sandbox& sandbox);
  enum class KeepDisk : bool { kNo, kYes };
  Result<void> let_go(Sandbox& sandbox, KeepDisk keep);
  Result<Disk> lease_disk(const model::wire::StartRequest& request, const Driver& driver,
                          const Record* stored);
  // Where the memory is with which a start goes on, found whole and usable here; empty: it boots.
  Result<std::string> find_memory(const model::wire::StartRequest& request, const Driver& driver,
                                  const Record* stored);
  Result<void> go_on(Driver& driver, Sandbox& sandbox, const Record* stored);
  // snapshotting.cc
  model::wire::SnapshotReply snapshot(const model::wire::SnapshotRequest& request);
  model::wire::Done drop_snapshot(const model::wire::SnapshotRef& request);
  void list_snapshots(const model::wire::Empty& request, const Send& send) const;
  Result<void> take_snapshot(const model::wire::SnapshotRequest& request, model::wire::SnapshotReply& reply);
  struct CopySource;
  Result<CopySource> begin_copy(const model::wire::SnapshotRequest& request) const;
  Result<void> come_to_rest(const CopySource& source, const SnapshotStore::Draft& draft) const;
  Result<void> copy_still(const CopySource& source, const SnapshotStore::Draft& draft,
                          std::uint32_t& still_us) const;
  static void end_copy(Sandbox& sandbox);
  // pausing.cc
  Result<void> pause_sandbox(const model::wire::PauseRequest& request, model::wire::PauseReply& reply);
  Result<void> freeze(Sandbox& sandbox, Driver& driver);
  Result<void> wake(Sandbox& sandbox, Driver& driver);
  Result<void> save(Sandbox& sandbox, Driver& driver);
  Result<void> save_or_freeze(Sandbox& sandbox, Driver& driver);
  void fill(model::wire::PauseReply& reply, const Sandbox& sandbox) const;
  // Of one that rests on its disk; 0 of others.
  std::uint64_t kept_bytes(const Sandbox& sandbox) const;
  Result<void> store(Sandbox& sandbox, model::wire::Rest result);
  Result<void> put_back(Sandbox& sandbox, const Record& stored);
  Result<void> end_at_rest(Sandbox& sandbox, model::wire::Rest result);
  static Record rested(const Sandbox& sandbox, model::wire::Rest result);
  Result<void> forget_memory(Sandbox& sandbox);
  Result<void> resume_sandbox(const model::wire::StartRequest& request, Steady::time_point arrived,
                              model::wire::StartReply& reply);
  Result<void> thaw(Sandbox& sandbox, const model::wire::StartRequest& request, Driver& driver);
  Result<SandboxPtr> boot_stored(const SandboxPtr& sandbox, const model::wire::StartRequest& request,
                                 Driver& driver, StepTimes& times);
  Held renew(Sandbox& sandbox, std::uint64_t generation);
  Result<void> set_rest(Sandbox& sandbox, model::wire::Rest rest);
  static Running running_of(const Sandbox& sandbox) {
    return {sandbox.id, sandbox.record.pid, sandbox.pidfd.get(), sandbox.record.slot};
  }
  // takeover.cc
  Result<void> take_over_record(const Record& record, const Record* stored);
  Result<void> take_over_restored(Sandbox& sandbox, Driver& driver, const Record& stored);
  void take_over_stored(const Record& record);
  Result<void> take_over_rest(Sandbox& sandbox);
  Result<void> take_over_saving(Sandbox& sandbox, Driver* driver);
  Result<void> sweep_groups();
  Result<Held> insert(const std::string& id, std::uint64_t generation);
  Result<SandboxPtr> find(const std::string& id, std::uint64_t generation) const;
  // Blocks while another request works on it. kNotFound when it is not there, or of another generation than
  // the given one; 0 stands for any.
  Result<Held> hold(const std::string& id, std::uint64_t generation) const;
  Result<Held> hold_uncopied(const model::wire::SandboxRef& request) const;
  void drop(const std::string& id);
  Driver* driver_of(std::uint8_t tier) const;
  // The driver with which something new may be started, or why there is none.
  Result<Driver*> driver_to_start(std::uint8_t tier) const;
  // While it is tested a driver does not know what it is: nothing of it is stored under its name.
  Result<void> require_tested(model::Tier tier) const;

  Parts parts_;
  mutable std::mutex host_mutex_;  // guards what is known of the host
  std::map<model::Tier, std::string> obstacles_;
  std::set<model::Tier> tested_;  // being tested
  model::HostFeatures features_{};
  mutable std::mutex mutex_;
  std::map<std::string, SandboxPtr> sandboxes_;
  std::map<std::uint64_t, std::string> launches_;
  std::atomic<std::uint64_t> next_launch_{1};
};

}  // namespace atl::runner
