// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "runner/slots.h"

namespace atl::runner {

// The runner's command line.
struct Options {
  std::string data_dir = "/var/lib/atoll";
  std::string run_dir = "/run/atoll";
  std::string socket;              // default: <run_dir>/runner.sock
  std::string guestd;              // default: atoll-guestd beside this program
  std::string runsc;               // default: found in PATH; "none": no gvisor tier
  bool microvm_emulation = false;  // where KVM does not work, emulate the processors of the microvm tier
  std::string instance = "atoll";
  std::string control_user = "atoll";
  std::int64_t control_uid = -1;  // instead of a name
  SlotRange slots{0, 1024};
  bool evict_paused = false;      // take the memory of those that rest in RAM to the host's swap
  std::uint32_t patience = 1;     // times the usual bounds (base/patience.h)
  std::uint16_t egress_port = 0;  // where atoll-gateway listens; 0: no gateway
  std::uint32_t ready_slots = 8;
  std::uint32_t ready_disks = 8;
  std::uint64_t disk_bytes = 4096ull << 20;  // of ready disks
  enum class Action { kRun, kHelp, kVersion } action = Action::kRun;
};

Result<Options> parse_options(int argc, char** argv);
std::string options_help();

// The runner: everything from the launcher's fork to the end. Blocking; returns when it was told to end.
Result<void> run(const Options& options);

}  // namespace atl::runner
