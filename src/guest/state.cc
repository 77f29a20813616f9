// SPDX-License-Identifier: Apache-2.0
#include "guest/state.h"

#include "guest/identity.h"
#include "guest/limits.h"

namespace atl::guest {
Guest::Guest(async::Executor loop, Options given)
    : executor(loop),
      options(std::move(given)),
      file_workers(kFileThreads),
      spawn_workers(kSpawnThreads),
      processes(loop, spawn_workers, OomCounter(options.boot.memory_events_fd), options.subscriber_stall),
      watches(loop),
      batches(loop, options.batch_directory),
      started_changed(loop) {}

Result<User> find_user(Guest& guest, const std::string& name, const std::string& default_user) {
  auto accounts = guest.accounts.get();
  std::optional<User> user;
  if (name.empty() && default_user.empty()) {
    user = accounts->find("user");
    if (!user || !usable(user->identity)) user = accounts->find("root");
  } else {
    user = accounts->find(name.empty() ? default_user : name);
  }
  if (!user || !usable(user->identity))
    return make_error(Code::kUnauthenticated, "invalid username: '{}'", name.empty() ? default_user : name);
  return *user;
}

}  // namespace atl::guest
