// SPDX-License-Identifier: Apache-2.0
//
// Identities for labels of commands, in a sandbox of the container tier (docs/decisions/0128). Each label has
// a part of the sandbox's cgroup, which the guest daemon puts the command into, and a table in the sandbox's
// network namespace gives what is sent from there an address of the label's own. Nobody inside has rights
// over either.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sys/cgroup.h"

namespace atl::runner {

// `label-3`: the part of a sandbox's group. The guest daemon knows the form of the name.
std::string label_part(std::uint32_t label);

// Makes what labels 1 to `count` need on the side of the sandbox, and the host's way back to them. May be
// repeated. `pidfd`: of a process of the sandbox.
Result<void> make_labels(const sys::Cgroups& cgroups, const std::string& sandbox, int pidfd,
                         std::uint32_t slot, std::uint32_t count);

// Ends the tracking of connections that processes with labels 1 to `count` of the slot's last owner had.
void forget_labels(std::uint32_t slot, std::uint32_t count);

}  // namespace atl::runner
