// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "runner/disks.h"
#include "runner/driver.h"
#include "runner/launcher.h"
#include "runner/microvm/machine_link.h"
#include "runner/microvm/monitor.h"
#include "runner/microvm/origins.h"
#include "runner/microvm/prepared.h"

namespace atl::runner::microvm {

// What runs the guest's processor.
enum class Accelerator : std::uint32_t { kNone = 0, kKvm = 1, kEmulation = 2 };

// What the driver works with; all are borrowed.
struct Tools {
  Launcher& launcher;
  DiskPool& disks;
  sys::Cgroups& cgroups;
  std::string templates;      // the directory of builds
  std::string machine;        // where the machine image is mounted
  std::string machine_image;  // its file
  int guestd;                 // the guest daemon's program, which nobody can change any more
  int host_netns;             // of the runner
  std::string log_file;       // gets what QEMU and the guest's kernel said at the last start that failed
  std::string sockets;        // a directory for those of machines
  std::string prepared;       // a directory for machines that wait, prepared, in files (prepared.h)
  std::string origins;        // a directory for what running machines began as (origins.h), on the same disk
};

// The microvm tier: a kernel of its own on QEMU's microvm machine (docs/decisions/0083-microvm.md), whose
// memory can lie in files (0091, 0092).
class MicrovmDriver final : public Driver {
 public:
  explicit MicrovmDriver(Tools tools);

  // What runs the processors, and what the machine image is: its digest. Call before anything is started with
  // it, and not again once something has been.
  void use(Accelerator accelerator, std::uint32_t tsc_khz);

  model::Tier tier() const override { return model::Tier::kMicrovm; }
  Capabilities capabilities() const override;
  model::Overhead overhead() const override;
  Result<void> prepare(const std::string& build) override;
  // And the prepared machines of that build.
  void forget(const std::string& build) override;
  Result<Started> start(const StartSpec& spec, Leases& leases, StepTimes& times) override;
  Result<void> pause(const Running& running) override;
  using Driver::resume;
  Result<void> resume(const Running& running, bool& may_run) override;
  Result<void> sync(const Running& running) override;
  Result<void> still(const Running& running) override;
  void sweep(const std::set<std::string>& kept) override { origins_.sweep(kept); }
  std::string runtime() const override;
  Result<void> save(const Running& running, const model::Limits& limits, const std::string& folder) override;
  Result<Started> restore(const StartSpec& spec, Leases& leases, const std::string& folder,
                          StepTimes& times) override;
  Result<void> stop(const Running& running) override;
  // What the disk's file takes of this host: only the guest knows how full its file system is.
  Result<std::array<std::uint64_t, 2>> inspect(const Running& running) override;

  // A start that takes nothing prepared and leaves nothing, whose template is the image `lower`, and whose
  // guest has `bound` to answer.
  Result<Started> start_on(int lower, Millis bound, const StartSpec& spec, Leases& leases, StepTimes& times);

 private:
  struct Parts;
  struct Source;
  Result<sys::Fd> open_template(const std::string& build) const;
  Result<Parts> make_parts(const StartSpec& spec, Leases& leases) const;
  static Result<Source> source_of(const std::string& folder);
  void keep_origin(const StartSpec& spec, const Source& source) const;
  void keep_prepared_origin(const StartSpec& spec);
  Result<Started> launch(const StartSpec& spec, Leases& leases, int lower, const Source& source,
                         StepTimes& times);
  Result<Started> checked(Started started, const StartSpec& spec, const Result<void>& ready);
  Result<Started> boot_new(const StartSpec& spec, Leases& leases, int lower, const std::string& key,
                           StepTimes& times);
  Result<void> boot(const StartSpec& spec, Millis bound);
  Result<void> save_stopped(const Running& running, const std::string& folder, const model::Limits& limits);
  Result<void> let_run(const Running& running);
  void go_on_anyway(const Running& running);
  // Prepared machines also hold the guest daemon.
  std::string prepared_runtime() const { return runtime() + " daemon " + daemon_name_; }
  void keep_log(int log) const;

  const Tools tools_;
  MachineLinks links_;
  PreparedMachines prepared_;
  const Origins origins_;
  Accelerator accelerator_ = Accelerator::kNone;
  std::uint32_t tsc_khz_ = 0;
  std::string machine_name_, daemon_name_, runtime_;
  mutable std::mutex mutex_;
  // Sandboxes whose QEMU does not stand still, for sure: not between save() and let_run(), and not those that
  // an earlier runner has left.
  std::set<std::string> runs_;
};

// From QEMU's start to the guest daemon's answer, emulated on a busy machine. Below control's patience.
inline constexpr Millis kBootBound{18'000};

}  // namespace atl::runner::microvm
