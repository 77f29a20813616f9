// SPDX-License-Identifier: Apache-2.0
//
// One line per subcommand, each in its own cmd_<name>.cc.
#pragma once

#include "apps/cli/attach.h"
#include "apps/cli/command.h"

namespace atl::cli {

void register_up(Commands& commands);
void register_down(Commands& commands);
void register_env(Commands& commands);
void register_status(Commands& commands);
void register_doctor(Commands& commands);
void register_run(Commands& commands);
void register_map(Commands& commands);
void register_create(Commands& commands);
void register_exec(Commands& commands);
void register_shell(Commands& commands);
void register_cp(Commands& commands);
void register_ls(Commands& commands);
void register_logs(Commands& commands);
void register_ps(Commands& commands);
void register_top(Commands& commands);
void register_kill(Commands& commands);
void register_get(Commands& commands);
void register_idle(Commands& commands);
void register_pause(Commands& commands);
void register_resume(Commands& commands);
void register_snapshot(Commands& commands);
void register_template(Commands& commands);
void register_secret(Commands& commands);
void register_service(Commands& commands);
void register_policy(Commands& commands);
void register_approvals(Commands& commands);
void register_key(Commands& commands);
void register_tenant(Commands& commands);
void register_ca(Commands& commands);
void register_version(Commands& commands);
void register_completion(Commands& commands);
void register_supervise(Commands& commands);     // hidden: what `atoll up` starts
void register_build_wanted(Commands& commands);  // hidden: what the supervisor starts
void register_daemon(Commands& commands);        // hidden: what the systemd units start

// Prepares `attach` for -t: kInvalid when standard input is no terminal.
Result<void> want_terminal(bool wanted, AttachOptions& attach);

}  // namespace atl::cli
