// SPDX-License-Identifier: Apache-2.0
//
// What this host can do, found by doing it once, when the runner starts.
#pragma once

#include "model/features.h"
#include "runner/microvm/driver.h"
#include "runner/options.h"

namespace atl::runner {

// Tries every feature that can be tried without the runner's parts; the rest is kNotTried. Forks: call before
// there is a thread.
model::HostFeatures try_host();

// Fills in what looking for gVisor has shown: `found` by find_runsc, `started` by its self-test.
void note_gvisor(model::HostFeatures& host, const Result<void>& found);
void note_gvisor_starts(model::HostFeatures& host, const Result<void>& started);

// The same for the microvm tier: whether there is a machine image, and what its self-test came to. Emulated,
// hardware virtualisation does not work, whatever /dev/kvm says.
void note_machine(model::HostFeatures& host, const Result<void>& image);
void note_machine_starts(model::HostFeatures& host, const Result<microvm::Accelerator>& found);

// One line in the log for each feature that is missing.
void tell_missing(const model::HostFeatures& host);

}  // namespace atl::runner
