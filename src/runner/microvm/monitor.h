// SPDX-License-Identifier: Apache-2.0
//
// What QEMU itself has to be asked for: to write the memory of a machine out, and to let it go on. The runner
// reads nothing of its answers: atoll-qmp does, a program without rights that is started for one question.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "runner/launcher.h"
#include "runner/microvm/changes.h"
#include "sys/fd.h"

namespace atl::runner::microvm {

// Whom to ask: a machine's slot, and a connection to its monitor.
struct Question {
  std::uint32_t slot;
  const sys::Fd& monitor;
  const std::string& machine;  // where the machine image is mounted
};

// A machine that has been written out, and the file that it was written to.
struct SavedMachine {
  MemoryPlace place;
  sys::Fd file, again;
};

// Stops the machine and writes devices and memory to the new file `path`. On error nobody knows whether it
// stands still. Blocking, bounded by `bound`.
Result<SavedMachine> save_machine(Launcher& launcher, const Question& question, const std::string& path,
                                  Millis bound);
// Lets a machine that was stopped, or is still being written out, go on; nothing happens to one that runs.
Result<void> resume_machine(Launcher& launcher, const Question& question, Millis bound);

}  // namespace atl::runner::microvm
