// SPDX-License-Identifier: Apache-2.0
#include "apps/gateway/options.h"

#include <sstream>

#include <CLI/CLI.hpp>

namespace atl::gateway_app {
namespace {

constexpr char kAbout[] =
    "The gateway of Atoll: everything that leaves a sandbox passes it.\n"
    "'atoll up' starts it with flags made from /etc/atoll/atoll.toml.\n\n"
    "The runner redirects all TCP and DNS of sandboxes to its port; atoll-control tells it over a unix "
    "socket\n"
    "which sandboxes there are and what they may reach. Secrets are kept here, sealed, and go nowhere but "
    "into\n"
    "requests that a rule binds them to.";

void declare(CLI::App& app, Options& options) {
  app.set_version_flag("--version", std::string("atoll-gateway ") + ATOLL_VERSION);
  app.add_option("--data-dir", options.data_dir, "What is kept: gateway/ belongs to this daemon")
      ->capture_default_str();
  app.add_option("--run-dir", options.run_dir, "Where gateway.sock is made")->capture_default_str();
  app.add_option("--user", options.user, "User to become when started as root; '' stays root")
      ->capture_default_str();
  app.add_option("--control-user", options.control_user, "User whose group may tell it of sandboxes")
      ->capture_default_str();
  app.add_option("--port", options.port, "TCP and UDP, the runner's --egress-port")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app.add_option("--dns", options.dns, "Name servers, address:port; without it those of the host");
  app.add_option(
      "--ca-file", options.ca_file,
      "Certificates of the authorities that servers are verified by; without it those of the host");
  app.add_option("--rules-file", options.rules_file,
                 "Rules for all sandboxes; followed while it runs, and the last good ones are kept");
}

}  // namespace

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  Options options;
  CLI::App app(kAbout, "atoll-gateway");
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    parsed.exit_code = app.exit(e, out, out) == 0 ? 0 : 2;
    parsed.text = out.str();
    return parsed;
  }
  std::string rules = options.rules_file.empty() ? "/" : options.rules_file;
  for (const std::string& path : {options.data_dir, options.run_dir, rules}) {
    if (!path.empty() && path.front() == '/') continue;
    parsed.exit_code = 2;
    parsed.text = "atoll-gateway: '" + path + "' must be an absolute path\n";
    return parsed;
  }
  parsed.options = std::move(options);
  return parsed;
}

}  // namespace atl::gateway_app
