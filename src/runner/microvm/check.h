// SPDX-License-Identifier: Apache-2.0
//
// Whether the microvm tier can be used, found by using it.
#pragma once

#include <string>

#include "runner/microvm/driver.h"

namespace atl::runner::microvm {

// Where the machine image is.
std::string machine_path(const std::string& data_dir);
// Mounts the machine image of `data_dir` at `directory`; why not, and what to do, where that cannot be.
Result<void> mount_machine(const std::string& data_dir, const std::string& directory);

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
// Chooses what runs the processors of guests and tells the driver: KVM where a guest answers within
// kBootBound, else emulation where it is allowed. Boots a guest once per boot of this host, machine image and
// permission; later calls remember. Blocks while it does.
Result<Accelerator> choose_accelerator(const TestParts& parts);

// How fast the time stamp counter of this host counts. Takes 20 ms.
std::uint32_t measure_tsc_khz();

}  // namespace atl::runner::microvm
