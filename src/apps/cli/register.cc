// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/registry.h"

namespace atl::cli {

// In the order of --help.
void register_all(Commands& commands) {
  register_up(commands);
  register_down(commands);
  register_status(commands);
  register_doctor(commands);
  register_env(commands);
  register_run(commands);
  register_map(commands);
  register_create(commands);
  register_exec(commands);
  register_shell(commands);
  register_cp(commands);
  register_ls(commands);
  register_ps(commands);
  register_get(commands);
  register_top(commands);
  register_logs(commands);
  register_kill(commands);
  register_pause(commands);
  register_resume(commands);
  register_idle(commands);
  register_snapshot(commands);
  register_template(commands);
  register_secret(commands);
  register_service(commands);
  register_policy(commands);
  register_approvals(commands);
  register_key(commands);
  register_tenant(commands);
  register_ca(commands);
  register_version(commands);
  register_completion(commands);
  register_supervise(commands);
  register_daemon(commands);
  register_build_wanted(commands);
}

}  // namespace atl::cli
