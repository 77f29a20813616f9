// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>

#include "apps/control/daemon.h"
#include "base/log.h"
#include "base/patience.h"

int main(int argc, char** argv) {
  using namespace atl;
  log::set_program("atoll-control");
  auto parsed = control_app::parse_options(argc, argv);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  patience_factor = parsed.options->patience;
  std::signal(SIGPIPE, SIG_IGN);
  control_app::Daemon daemon(std::move(*parsed.options));
  if (auto opened = daemon.open(); !opened) {
    log::error("atoll-control cannot start",
               {{"what", opened.error().message()}, {"hint", opened.error().hint()}});
    return 1;
  }
  daemon.run();
  return 0;
}
