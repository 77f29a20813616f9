// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>

#include "apps/gateway/daemon.h"
#include "base/log.h"

int main(int argc, char** argv) {
  using namespace atl;
  log::set_program("atoll-gateway");
  auto parsed = gateway_app::parse_options(argc, argv);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  std::signal(SIGPIPE, SIG_IGN);
  gateway_app::Daemon daemon(std::move(*parsed.options));
  if (auto opened = daemon.open(); !opened) {
    log::error("atoll-gateway cannot start",
               {{"what", opened.error().message()}, {"hint", opened.error().hint()}});
    return 1;
  }
  daemon.run();
  return 0;
}
