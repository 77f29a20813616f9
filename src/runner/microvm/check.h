// SPDX-License-Identifier: Apache-2.0
//
// Whether the microvm tier can be used, found by using it.
#pragma once

#include <optional>
#include <string>

#include "runner/microvm/driver.h"

namespace atl::runner::microvm {

// Where the machine image is.
std::string machine_path(const std::string& data_dir);
// Mounts the machine image of `data_dir` at `directory`; why not, and what to do, where that cannot be.
Result<void> mount_machine(const std::string& data_dir, const std::string& directory);

// The sandbox that the self-test starts.
inline constexpr char kTestSandbox[] = "iselftestofthemicrovm";

// What the self-test takes from the runner.
struct TestParts {
  MicrovmDriver& driver;
  SlotPool& slots;
  DiskPool& disks;
  sys::Cgroups& cgroups;
  std::uint64_t disk_bytes;
  std::string image;   // the machine image
  std::string memory;  // a file that keeps the outcome until this machine boots again
  bool emulation;      // the operator allows it
};
// What an earlier choose_accelerator() came to, since this host booted, with this machine image and this
// permission; tells the driver. nullopt: it has to be called.
std::optional<Result<Accelerator>> known_accelerator(const TestParts& parts);
// Chooses what runs the processors of guests and tells the driver: KVM where a guest answers within
// kBootBound, else emulation where it is allowed. Blocks while it boots guests, up to twice kBootBound.
Result<Accelerator> choose_accelerator(const TestParts& parts);

// How fast the time stamp counter of this host counts. Takes 20 ms.
std::uint32_t measure_tsc_khz();

}  // namespace atl::runner::microvm
