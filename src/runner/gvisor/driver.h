// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "runner/driver.h"
#include "runner/launcher.h"
#include "runner/templates.h"

namespace atl::runner::gvisor {

// What the driver works with; all are borrowed.
struct Tools {
  Launcher& launcher;
  TemplateCache& templates;
  sys::Cgroups& cgroups;
  std::string guestd;    // the guest daemon's program: a path in this process's mount namespace
  int runsc;             // the program
  int host_netns;        // of the runner
  std::string log_file;  // gets what runsc said at the last call that failed
  std::string runtime;   // which programs wrote a memory (runtime_text())
};

// Mounts a file system in memory at `directory` that holds a copy of this program and nothing else; its path.
Result<std::string> mount_program(int program, const std::string& directory);

// What tells whether a memory that was written by one runsc can be read by another: the program itself, and
// the guest daemon's, parts of which are mapped from its file. Empty where there is no runsc.
Result<std::string> runtime_text(const Result<sys::Fd>& runsc, int guestd);

// The gvisor tier: a kernel in user space, runsc (docs/decisions/0082-gvisor.md). Nothing that runsc says is
// read here: a start has succeeded when the guest daemon says so.
class GvisorDriver final : public Driver {
 public:
  explicit GvisorDriver(Tools tools) : tools_(std::move(tools)) {}

  model::Tier tier() const override { return model::Tier::kGvisor; }
  Capabilities capabilities() const override;
  Result<void> prepare(const std::string& build) override { return tools_.templates.prepare(build); }
  void forget(const std::string& build) override { tools_.templates.forget(build); }
  Result<Started> start(const StartSpec& spec, Leases& leases, StepTimes& times) override;
  Result<void> pause(const Running& running) override;
  using Driver::resume;
  Result<void> resume(const Running& running, bool& may_run) override;
  Result<void> sync(const Running& running) override;
  std::string runtime() const override { return tools_.runtime; }
  Result<void> save(const Running& running, const model::Limits& limits, const std::string& folder) override;
  Result<Started> restore(const StartSpec& spec, Leases& leases, const std::string& folder,
                          StepTimes& times) override;
  Result<void> stop(const Running& running) override;
  Result<std::array<std::uint64_t, 2>> inspect(const Running& running) override;

  // A start whose template is `lower`, a detached mount.
  Result<Started> start_on(int lower, const StartSpec& spec, Leases& leases, StepTimes& times);

 private:
  struct Pipes;
  Result<Started> launch(int lower, Pipes& pipes, const StartSpec& spec, Leases& leases, StepTimes& times);
  Result<void> bring_network(int pidfd, Slot& slot);
  Result<void> complete(const Started& started, Leases& leases, Pipes& pipes, StepTimes& times);
  // memory.cc
  class Visit;
  Result<void> write_memory(const Running& running);
  Result<void> let_restored_go_on(const Running& running, int root, bool& may_run);
  void keep_log(int log) const;

  const Tools tools_;
  std::mutex mutex_;
  std::map<pid_t, sys::Fd> logs_;  // of those that are to go on from files and have not been told to
};

}  // namespace atl::runner::gvisor
