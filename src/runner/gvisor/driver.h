// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  std::string log_file;  // gets what runsc said at the last start that failed
};

// Mounts a file system in memory at `directory` that holds a copy of this program and nothing else; its path.
Result<std::string> mount_program(int program, const std::string& directory);

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
  Result<void> resume(const Running& running) override;
  Result<void> sync(const Running& running) override;
  Result<void> stop(const Running& running) override;
  Result<std::array<std::uint64_t, 2>> inspect(const Running& running) override;

  // A start whose template is `lower`, a detached mount.
  Result<Started> start_on(int lower, const StartSpec& spec, Leases& leases, StepTimes& times);

 private:
  struct Pipes;
  Result<void> bring_network(int pidfd, Slot& slot);
  Result<void> complete(const Started& started, Leases& leases, Pipes& pipes, StepTimes& times);
  void keep_log(int log) const;

  const Tools tools_;
};

}  // namespace atl::runner::gvisor
