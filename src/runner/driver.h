// SPDX-License-Identifier: Apache-2.0
//
// Driver: the code that implements one tier. The service leases what every tier needs (slot, disk, cgroup)
// and keeps the records; a driver only turns leases into running processes and back. What a tier can do is
// data (Capabilities), so nothing outside the drivers asks which tier it is.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/overhead.h"
#include "model/runner_protocol.h"
#include "model/sandbox.h"
#include "runner/disks.h"
#include "runner/slots.h"
#include "sys/cgroup.h"
#include "sys/fd.h"

namespace atl::runner {

struct Capabilities {
  bool pause = false;            // in memory, holding its slot and cgroup
  bool memory_snapshot = false;  // save() and restore(): a pause that keeps the memory puts it into files
  bool quiet_memory = false;     // save() fails while a connection leads into the sandbox or out of it
  bool disk_snapshot = false;    // still() makes a disk image that can be copied
  bool fork = false;
  // The guest's own kernel writes the file system of the disk, so this host must never mount it again. It has
  // a journal: stop() ends that kernel wherever it is.
  bool guest_disk = false;
};

// What to start.
struct StartSpec {
  std::string sandbox;
  std::uint64_t generation = 0;
  std::string build;
  model::Limits limits;
  std::array<std::uint8_t, 32> internal_token{};
  std::uint64_t launch_id = 0;  // ours; names this start in reports of the launcher
  bool as_child = false;        // its disk is new, or was another's: it gets names of its own
};

// What a start may use. The service owns it and takes it back when the start fails.
struct Leases {
  Slot slot;
  Disk disk;
  sys::CgroupHandles cgroup;
};

using StepTimes =
    std::array<std::uint32_t, model::wire::kStartSteps>;  // microseconds, by model::wire::StartStep

// What a start has made.
struct Started {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  sys::Fd pidfd;
  sys::Fd log;          // of the driver's
  bool labels = false;  // its guest daemon can give labels to commands
};

// A sandbox that runs, as a driver sees it.
struct Running {
  std::string sandbox;
  pid_t pid = 0;
  int pidfd = -1;
  std::uint32_t slot = 0;
};

// One tier.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual model::Tier tier() const = 0;
  virtual Capabilities capabilities() const = 0;
  // What a sandbox takes of its group beside its own limits.
  virtual model::Overhead overhead() const { return model::overhead_of(tier(), 0); }
  // Everything a later start of this build can use: opens the template. Blocking, may take milliseconds.
  virtual Result<void> prepare(const std::string& build) = 0;
  // Drops what prepare() keeps.
  virtual void forget(const std::string& build) = 0;
  // Blocking, bounded by kStartBound. On error nothing of the sandbox runs any more.
  virtual Result<Started> start(const StartSpec& spec, Leases& leases, StepTimes& times) = 0;
  // Brings all processes to rest where they stand, or lets them go on. Blocking, bounded by kPauseBound; may
  // be repeated. On error the sandbox runs as before.
  virtual Result<void> pause(const Running& running);
  // `may_run` is set before anything of the sandbox can run: without it nothing has, whatever failed.
  virtual Result<void> resume(const Running& running, bool& may_run);
  Result<void> resume(const Running& running);
  // Writes to the disk image what the kernel holds of the sandbox's files. Blocking.
  virtual Result<void> sync(const Running& running);
  // Comes to rest with everything on the disk image, until resume(). As pause() otherwise.
  virtual Result<void> still(const Running& running);

  // Drops what it keeps on this host for sandboxes that are not among `kept`. Once, before anything is
  // started.
  virtual void sweep(const std::set<std::string>&) {}

  // Of tiers with memory_snapshot. What must be the same for a stored memory to be read here: release of the
  // runtime, processor, and the like, as text for people of less than 96 bytes. Constant once the tier is
  // offered.
  virtual std::string runtime() const { return {}; }
  // Stores memory and devices in `folder`, an empty directory that only root enters, in files of the driver's
  // choice, not synced. Afterwards the sandbox stands still, with everything else on its disk image, until
  // resume() or stop(). Blocking, bounded by kSaveBound. On error it runs as before.
  virtual Result<void> save(const Running& running, const model::Limits& limits, const std::string& folder);
  // A start from what save() has put into `folder`, which was found to be whole and of runtime(); the disk is
  // the one of that moment, or its copy. What comes back stands still and has changed nothing; resume() lets
  // it go on, with the time and random numbers of its own before any program of it runs. The files stay as
  // they are; their names may go before resume(). On error nothing of it runs any more.
  virtual Result<Started> restore(const StartSpec& spec, Leases& leases, const std::string& folder,
                                  StepTimes& times);
  // Ends all processes, resting ones too, and waits for the kernel to say so; kDeadline when one did not go
  // within kStopBound.
  virtual Result<void> stop(const Running& running) = 0;
  // Disk use in bytes: used, total.
  virtual Result<std::array<std::uint64_t, 2>> inspect(const Running& running) = 0;
};

inline constexpr Millis kStartBound{10'000};
inline constexpr Millis kStopBound{5'000};
inline constexpr Millis kPauseBound{5'000};
inline constexpr Millis kSaveBound{20'000};

// The refusal of a capability that a tier does not have.
Error unsupported(model::Tier tier, std::string_view capability);

}  // namespace atl::runner
