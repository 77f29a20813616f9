// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include "runner/disks.h"
#include "runner/driver.h"
#include "runner/launcher.h"

namespace atl::runner::microvm {

// What runs the guest's processor.
enum class Accelerator : std::uint32_t { kNone = 0, kKvm = 1, kEmulation = 2 };

// What the driver works with; all are borrowed.
struct Tools {
  Launcher& launcher;
  DiskPool& disks;
  sys::Cgroups& cgroups;
  std::string templates;  // the directory of builds
  std::string machine;    // where the machine image is mounted; empty: there is none
  int guestd;             // the guest daemon's program, which nobody can change any more
  int host_netns;         // of the runner
  std::string log_file;   // gets what QEMU and the guest's kernel said at the last start that failed
};

// The microvm tier: a kernel of its own on QEMU's microvm machine (docs/decisions/0083-microvm.md). Nothing
// that QEMU says is read here: a start has succeeded when one byte came from the guest.
class MicrovmDriver final : public Driver {
 public:
  explicit MicrovmDriver(Tools tools) : tools_(std::move(tools)) {}

  // Call before anything is started.
  void use(Accelerator accelerator, std::uint32_t tsc_khz) {
    accelerator_ = accelerator;
    tsc_khz_ = tsc_khz;
  }

  model::Tier tier() const override { return model::Tier::kMicrovm; }
  Capabilities capabilities() const override;
  Overhead overhead() const override;
  Result<void> prepare(const std::string& build) override;
  void forget(const std::string&) override {}  // nothing is kept
  Result<Started> start(const StartSpec& spec, Leases& leases, StepTimes& times) override;
  Result<void> pause(const Running& running) override;
  Result<void> resume(const Running& running) override;
  Result<void> stop(const Running& running) override;
  // What the disk's file takes of this host: only the guest knows how full its file system is.
  Result<std::array<std::uint64_t, 2>> inspect(const Running& running) override;

  // A start whose template is the image `lower`, and whose guest has `bound` to answer.
  Result<Started> start_on(int lower, Millis bound, const StartSpec& spec, Leases& leases, StepTimes& times);

 private:
  struct Parts;
  Result<sys::Fd> open_template(const std::string& build) const;
  Result<Parts> make_parts(const StartSpec& spec, Leases& leases) const;
  Result<void> complete(Millis bound, Parts& parts, StepTimes& times) const;
  void keep_log(int log) const;

  const Tools tools_;
  Accelerator accelerator_ = Accelerator::kNone;
  std::uint32_t tsc_khz_ = 0;
};

// From QEMU's start to the guest daemon's answer, emulated on a busy machine. Below control's patience.
inline constexpr Millis kBootBound{18'000};

}  // namespace atl::runner::microvm
