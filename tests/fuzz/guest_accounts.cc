// SPDX-License-Identifier: Apache-2.0
//
// Files of the sandbox that the workload may write and the guest daemon reads: passwd, group, and texts of
// the kernel with names in them that the workload chose.
#include "base/check.h"
#include "guest/accounts.h"
#include "guest/identity.h"
#include "guest/limits.h"
#include "guest/metrics.h"
#include "guest/process.h"
#include "guest/session.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::guest;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto users = parse_passwd(text);
  auto groups = parse_group(text);
  CHECK(users.size() <= size && groups.size() <= size, "more lines than bytes");
  for (const Account& user : users) {
    CHECK(!user.name.empty() && user.uid != static_cast<uid_t>(-1), "impossible user '{}'", user.name);
    CHECK(user.home.front() == '/' && user.shell.front() == '/', "relative home of '{}'", user.name);
  }
  Accounts accounts(users, groups);
  CHECK(accounts.find("root"), "root is gone");
  for (const Account& user : users) {
    auto found = accounts.find(user.name);
    CHECK(found && found->identity.groups.size() <= kMaxGroups, "user '{}' is lost", user.name);
  }
  parse_stat_session(text);
  parse_oom_kills(text);
  parse_cpu_usage(text);
  parse_memory_cache(text);
  number_is_mapped(text, 1000);
  return 0;
}
