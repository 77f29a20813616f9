// SPDX-License-Identifier: Apache-2.0
//
// atoll env: shell lines that point any E2B client at this installation.
#include <netdb.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/env_lines.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # for this shell; then any E2B client works unchanged\n"
    "  eval \"$(atoll env)\"\n"
    "  # over TLS, with a name for each port of a sandbox ('atoll ca' says how to trust the certificate)\n"
    "  eval \"$(atoll env --tls)\"";

struct Options {
  bool tls = false;
};

// Names below localhost are this machine (RFC 6761), but the C library asks a name server for them.
bool finds_names(const std::string& domain) {
  std::string name = "api." + domain.substr(0, domain.rfind(':'));
  if (!name.ends_with(".localhost")) return true;  // a matter of the name servers
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, nullptr, &list) != 0) return false;
  ::freeaddrinfo(list);
  return true;
}

Result<int> env(const Options& options, const Globals& globals) {
  TRY(Target target, find_target(globals.instance));
  if (options.tls && target.ca_file.empty()) {
    return make_error(Code::kUnsupported, "this installation has no certificate of its own")
        .with_hint("run 'sudo atoll up' again, or set NODE_EXTRA_CA_CERTS yourself");
  }
  EnvLines lines = env_lines(target, options.tls ? Transport::kTls : Transport::kPlain);
  if (globals.json) {
    json::object out;
    for (const auto& [name, value] : lines.set) out[name] = value;
    print_json(out);
    return kExitOk;
  }
  write_out(shell_lines(lines));
  if (options.tls && !finds_names(target.domain)) {
    print_note(
        fmt::format("programs on this machine do not find names below {}: install Debian's "
                    "libnss-myhostname, or use 'atoll env' without --tls",
                    target.domain.substr(0, target.domain.rfind(':'))));
  }
  if (is_terminal(1)) print_note("set them with: eval \"$(atoll env)\"");
  return kExitOk;
}

}  // namespace

void register_env(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "env", "print the variables that E2B clients need", kExamples,
                               [options](const Globals& globals) { return env(*options, globals); });
  app.add_flag("--tls", options->tls, "over TLS and by name instead of plain HTTP");
}

}  // namespace atl::cli
