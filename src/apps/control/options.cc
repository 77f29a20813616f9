// SPDX-License-Identifier: Apache-2.0
#include "apps/control/options.h"

#include <thread>

#include <CLI/CLI.hpp>

#include "base/patience.h"

namespace atl::control_app {
namespace {

constexpr char kAbout[] =
    "The unprivileged daemon of Atoll: API, ingress, and the store.\n"
    "'atoll up' starts it with flags made from /etc/atoll/atoll.toml.\n\n"
    "One port serves the API and all sandboxes, plain HTTP and TLS told apart by the first byte. Plain HTTP "
    "is answered\n"
    "on loopback addresses only, unless --plain=anywhere says otherwise; TLS is answered everywhere.";

struct Raw {
  std::vector<std::string> listen = {"127.0.0.1:7400"};
  std::string domain = "atoll.localhost";
  std::string plain = "loopback";
  bool gateway = false;
  std::int64_t max_timeout_s = 86'400;
  std::string default_isolation = "auto";
};

void declare(CLI::App& app, Options& options, Raw& raw) {
  app.set_version_flag("--version", std::string("atoll-control ") + ATOLL_VERSION);
  app.add_option("--data-dir", options.data_dir, "What is kept: control/ belongs to this daemon")
      ->capture_default_str();
  app.add_option("--run-dir", options.run_dir, "Where runner.sock is")->capture_default_str();
  app.add_option("--listen", raw.listen, "Address and port, may be given several times")
      ->capture_default_str();
  app.add_option("--domain", raw.domain,
                 "Names of the API and of sandboxes; without a port, that of the first --listen")
      ->capture_default_str();
  app.add_option("--plain", raw.plain, "Where plain HTTP is answered")
      ->check(CLI::IsMember({"loopback", "anywhere"}))
      ->capture_default_str();
  app.add_option("--user", options.user, "User to become when started as root; '' stays root")
      ->capture_default_str();
  app.add_flag("--gateway", raw.gateway,
               "Tell atoll-gateway (RUN-DIR/gateway.sock) of sandboxes: nothing leaves without it");
  app.add_flag("--first-use", options.first_use,
               "Have code-interpreter-v1 built when it is first asked for ('atoll build-wanted' builds it)");
  app.add_option("--pool-size", options.service.pool_size, "Sandboxes kept ready per template")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--max-ready", options.service.max_ready, "Sandboxes kept ready altogether")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  app.add_option("--max-sandboxes", options.service.max_sandboxes, "Of this host, the ready ones included")
      ->check(CLI::Range(1, 65'000))
      ->capture_default_str();
  app.add_option("--max-sandboxes-per-tenant", options.service.max_sandboxes_per_tenant,
                 "For tenants without a limit of their own")
      ->check(CLI::Range(1, 65'000))
      ->capture_default_str();
  app.add_option("--overcommit-memory", options.overcommit.memory,
                 "How often this host's memory may be promised to sandboxes by their limits")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--overcommit-cpu", options.overcommit.cpu, "The same of its cores")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--overcommit-processes", options.overcommit.processes, "The same of its processes")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--overcommit-disk", options.overcommit.disk, "The same of the data directory's disk")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--default-isolation", raw.default_isolation,
                 "Of sandboxes for which nobody asks; auto is gvisor where it is usable, else container")
      ->check(CLI::IsMember({"container", "gvisor", "microvm", "auto"}))
      ->capture_default_str();
  app.add_option(
         "--patience", options.patience,
         "Wait so many times as long for sandboxes to start, rest and end: for hosts that are emulated, "
         "or always busy")
      ->check(CLI::Range(std::uint32_t(1), kMaxPatience))
      ->capture_default_str();
  app.add_option("--max-timeout", raw.max_timeout_s, "Longest time a sandbox may ask for, in seconds")
      ->check(CLI::Range(std::int64_t(1), std::int64_t(365 * 86'400)))
      ->capture_default_str();
}

Result<void> finish(Options& options, const Raw& raw) {
  for (const std::string& text : raw.listen) {
    TRY(net::Endpoint endpoint, net::parse_endpoint(text, net::AnyPort::kYes));
    options.listen.push_back(std::move(endpoint));
  }
  options.plain = raw.plain == "anywhere" ? Plain::kAnywhere : Plain::kLoopback;
  options.gateway = raw.gateway ? Gateway::kYes : Gateway::kNo;
  options.domain = raw.domain;
  options.service.default_isolation = model::parse_host_default(raw.default_isolation).value();
  options.service.max_timeout = std::chrono::seconds(raw.max_timeout_s);
  for (const std::string& path : {options.data_dir, options.run_dir}) {
    if (path.empty() || path.front() != '/')
      return make_error(Code::kInvalid, "'{}' must be an absolute path", path);
  }
  return {};
}

}  // namespace

Parsed parse_options(int argc, char** argv) {
  Parsed parsed;
  Options options;
  options.service.pool_size = 4;
  Raw raw;
  CLI::App app(kAbout, "atoll-control");
  declare(app, options, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    parsed.exit_code = app.exit(e, out, out) == 0 ? 0 : 2;
    parsed.text = out.str();
    return parsed;
  }
  if (auto done = finish(options, raw); !done) {
    parsed.exit_code = 2;
    parsed.text = "atoll-control: " + done.error().message() + "\n";
    return parsed;
  }
  parsed.options = std::move(options);
  return parsed;
}

}  // namespace atl::control_app
