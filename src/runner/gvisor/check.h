// SPDX-License-Identifier: Apache-2.0
//
// Whether the gvisor tier can be used, found by using it.
#pragma once

#include <string>

#include "runner/gvisor/driver.h"

namespace atl::runner::gvisor {

// The word of the error about a program that is too old.
inline constexpr char kTooOld[] = "runsc_too_old";

// Opens the program: `given`, or the first runsc in PATH when that is empty. Refuses one from before 2024,
// and "none". Forks: call before there is a thread.
Result<sys::Fd> find_runsc(const std::string& given);

// The sandbox that the self-test starts.
inline constexpr char kTestSandbox[] = "iselftestofthegvisort";

// What the self-test takes from the runner.
struct TestParts {
  GvisorDriver& driver;
  SlotPool& slots;
  DiskPool& disks;
  sys::Cgroups& cgroups;
  std::uint64_t disk_bytes;
  std::string memory;  // a file that keeps a success until this machine boots again
};
// Whether self_test() has succeeded with this runsc and this guest daemon since this host booted.
bool known_to_start(const TestParts& parts);
// Starts a sandbox with an empty template, connects to its guest daemon over its link, and removes it. Blocks
// for half a second where all is well.
Result<void> self_test(const TestParts& parts);

// The year in what `runsc --version` prints, which names a release by its date; 0 when there is none.
int release_year(std::string_view text);

}  // namespace atl::runner::gvisor
