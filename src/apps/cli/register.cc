// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/registry.h"

namespace atl::cli {

void register_all(Commands& commands) {
  register_run(commands);
  register_create(commands);
  register_exec(commands);
  register_shell(commands);
  register_cp(commands);
  register_ls(commands);
  register_logs(commands);
  register_ps(commands);
  register_top(commands);
  register_kill(commands);
  register_env(commands);
  register_completion(commands);
  register_version(commands);
}

}  // namespace atl::cli
