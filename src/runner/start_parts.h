// SPDX-License-Identifier: Apache-2.0
//
// Pieces of a start and a stop that do not depend on the tier.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "model/guest_boot.h"
#include "runner/child_steps.h"
#include "runner/driver.h"
#include "runner/launcher.h"
#include "sys/cgroup.h"
#include "sys/fd.h"

namespace atl::runner {

std::uint32_t us_between(std::uint64_t from_ns, std::uint64_t to_ns);

Result<std::pair<sys::Fd, sys::Fd>> make_pipe();  // the end to read, the end to write
// A pipe that holds these bytes (at most a pipe's 64 KiB) and nothing else.
Result<sys::Fd> filled_pipe(std::string_view bytes);

// What the guest daemon is told, without any descriptor.
model::GuestBoot guest_boot(const StartSpec& spec);
inline Result<sys::Fd> boot_pipe(const model::GuestBoot& boot) {
  return filled_pipe({reinterpret_cast<const char*>(&boot), sizeof boot});
}

void put_cgroup(PassedFds& fds, const sys::CgroupHandles& cgroup);
// What every tier passes of the leases.
PassedFds passed_fds(const Leases& leases);
std::uint64_t shm_bytes(const model::Limits& limits);  // of /dev/shm

// The next report of a launcher's child, or nothing when it has closed its pipe. kDeadline when nothing comes
// until then.
Result<std::optional<ChildReport>> read_report(int pipe, Steady::time_point until);
// Waits until the child of an order says that it is set up, and closes its pipe; takes its times.
Result<void> wait_for_setup(int status_pipe, StepTimes& times);

// Stops all processes of a sandbox where they are; when one does not come to rest, none is stopped.
Result<void> freeze_processes(sys::Cgroups& cgroups, const Running& running);
// Ends all processes of a sandbox by its cgroup and its PID 1.
Result<void> end_processes(sys::Cgroups& cgroups, const Running& running);
// Use and size of the file system at `path`, which must be an overlay.
Result<std::array<std::uint64_t, 2>> overlay_use(const std::string& path, const std::string& sandbox);
// Brings everything written to it into the sandbox's image.
Result<void> overlay_sync(const std::string& path, const std::string& sandbox);

}  // namespace atl::runner
