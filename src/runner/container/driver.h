// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/driver.h"
#include "runner/launcher.h"
#include "runner/templates.h"

namespace atl::runner::container {

// The container tier: namespaces, cgroups, seccomp and Landlock of the shared kernel.
class ContainerDriver final : public Driver {
 public:
  // `guestd`: the guest daemon's program, in a sealed memory file. All are borrowed.
  ContainerDriver(Launcher& launcher, TemplateCache& templates, sys::Cgroups& cgroups, int guestd);

  model::Tier tier() const override { return model::Tier::kContainer; }
  Capabilities capabilities() const override;
  Result<void> prepare(const std::string& build) override { return templates_.prepare(build); }
  void forget(const std::string& build) override { templates_.forget(build); }
  Result<Started> start(const StartSpec& spec, Leases& leases, StepTimes& times) override;
  Result<void> pause(const Running& running) override;
  using Driver::resume;
  Result<void> resume(const Running& running, bool& may_run) override;
  Result<void> sync(const Running& running) override;
  Result<void> stop(const Running& running) override;
  Result<std::array<std::uint64_t, 2>> inspect(const Running& running) override;

 private:
  Launcher& launcher_;
  TemplateCache& templates_;
  sys::Cgroups& cgroups_;
  int guestd_;
};

// Copies a program into a memory file that nobody can change any more (memfd_create(2), sealed).
Result<sys::Fd> seal_program(const std::string& path);

}  // namespace atl::runner::container
