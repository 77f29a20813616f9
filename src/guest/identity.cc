// SPDX-License-Identifier: Apache-2.0
#include "guest/identity.h"

#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "guest/posix.h"

namespace atl::guest {
namespace {

bool privileged() {
  static const bool is_root = ::geteuid() == 0;
  return is_root;
}

thread_local Identity current;

// KERNEL: credentials belong to threads; only the C library makes setgroups(2) act on all of them, so it is
// called directly here. Leaving fsuid 0 drops CAP_CHOWN, CAP_DAC_*, CAP_FOWNER and friends from the effective
// set, coming back raises them again (capabilities(7), "Effect of user ID changes"). setfsuid(2) reports no
// failure: a second call with an impossible id reads the value back.
bool switch_file_system_ids(const Identity& identity) {
  if (!current.root()) ::setfsuid(0);
  long groups = ::syscall(SYS_setgroups, identity.groups.size(), identity.groups.data());
  ::setfsgid(identity.gid);
  ::setfsuid(identity.uid);
  return groups == 0 && static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == identity.uid &&
         static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == identity.gid;
}

// KERNEL: gVisor has no setfsuid(2). The effective ids decide there, and take and give the capabilities in
// the same way. The real and saved ones stay 0, so the user can neither signal nor trace this thread
// (kill(2), ptrace(2)).
bool switch_effective_ids(const Identity& identity) {
  constexpr auto kKeep = static_cast<uid_t>(-1);
  if (!current.root() && ::syscall(SYS_setresuid, kKeep, 0, kKeep) != 0) return false;
  return ::syscall(SYS_setgroups, identity.groups.size(), identity.groups.data()) == 0 &&
         ::syscall(SYS_setresgid, kKeep, identity.gid, kKeep) == 0 &&
         ::syscall(SYS_setresuid, kKeep, identity.uid, kKeep) == 0;
}

void switch_to(const Identity& identity) {
  if (!privileged() || identity == current) return;
  static const bool has_file_system_ids = ::syscall(SYS_setfsuid, static_cast<uid_t>(-1)) >= 0;
  bool took = has_file_system_ids ? switch_file_system_ids(identity) : switch_effective_ids(identity);
  CHECK(took, "cannot act as uid {} gid {} on this thread", identity.uid, identity.gid);
  current = identity;
}

}  // namespace

ActAs::ActAs(const Identity& identity) : previous_(current) { switch_to(identity); }
ActAs::~ActAs() { switch_to(previous_); }

bool number_is_mapped(std::string_view map, std::uint32_t number) {
  bool any = false;
  for (std::string_view line : split(map, '\n')) {
    std::vector<std::uint64_t> fields;
    for (std::string_view word : split(line, ' ')) {
      if (auto value = parse_number<std::uint64_t>(word)) fields.push_back(*value);
    }
    if (fields.size() != 3) continue;
    any = true;
    if (number >= fields[0] && number - fields[0] < fields[2]) return true;
  }
  return !any;
}

bool usable(const Identity& identity) {
  if (!privileged()) return identity.uid == ::geteuid();
  static const std::string users = read_small_file("/proc/self/uid_map", 4096).value_or("");
  static const std::string groups = read_small_file("/proc/self/gid_map", 4096).value_or("");
  return number_is_mapped(users, identity.uid) && number_is_mapped(groups, identity.gid) &&
         std::all_of(identity.groups.begin(), identity.groups.end(),
                     [](gid_t gid) { return number_is_mapped(groups, gid); });
}

}  // namespace atl::guest
