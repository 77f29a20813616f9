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
void switch_to(const Identity& identity) {
  if (!privileged() || identity == current) return;
  if (!current.root()) ::setfsuid(0);
  long groups = ::syscall(SYS_setgroups, identity.groups.size(), identity.groups.data());
  ::setfsgid(identity.gid);
  ::setfsuid(identity.uid);
  bool took = groups == 0 && static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == identity.uid &&
              static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == identity.gid;
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
