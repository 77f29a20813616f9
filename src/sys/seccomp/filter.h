// SPDX-License-Identifier: Apache-2.0
//
// System call filters as typed tables (seccomp(2)), compiled to BPF with libseccomp. Calls that no rule names
// get the default action. Calls of another architecture (int 0x80, x32 on x86-64) never reach the rules: they
// get `foreign`.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace atl::sys {

// One condition on an argument; all of a rule's conditions must hold.
struct ArgumentTest {
  enum class Op { kEqual, kNotEqual, kGreater, kMaskedEqual };
  unsigned index;
  Op op;
  std::uint64_t value;       // kMaskedEqual: the mask
  std::uint64_t masked = 0;  // kMaskedEqual: what remains under the mask
};

struct FilterAction {
  enum class Kind { kAllow, kErrno, kKillProcess };
  Kind kind = Kind::kAllow;
  int error = 0;
};

struct FilterRule {
  std::string call;  // the kernel's name; one that this architecture lacks is skipped
  FilterAction action{};
  std::vector<ArgumentTest> tests{};
};

struct FilterPolicy {
  FilterAction otherwise{FilterAction::Kind::kErrno, 1};
  FilterAction foreign{FilterAction::Kind::kKillProcess, 0};
  std::vector<FilterRule> rules;
};

using FilterProgram = std::vector<sock_filter>;

Result<FilterProgram> compile_filter(const FilterPolicy& policy);
// One program that asks both: what `first` allows, `second` decides. Half the cost of installing two.
FilterProgram chain_filters(const FilterProgram& first, const FilterProgram& second);
// For daemons: sets no_new_privs and installs the filter on all threads of this process.
Result<void> install_filter(const FilterProgram& program);

}  // namespace atl::sys
