// SPDX-License-Identifier: Apache-2.0
//
// atoll ca: the certificate authority that signs this installation's TLS certificate, and how to trust it.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/env_lines.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"
#include "apps/cli/shell_quote.h"
#include "base/units.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

constexpr char kExamples[] =
    "  # where the certificate is, and how to trust it\n"
    "  atoll ca\n"
    "  # the certificate itself\n"
    "  atoll ca --pem > atoll-ca.pem\n"
    "  # for everything on a Debian machine\n"
    "  atoll ca --pem | sudo tee /usr/local/share/ca-certificates/atoll.crt && sudo update-ca-certificates";

struct Options {
  bool pem = false;
};

std::string advice(const Target& target) {
  std::string file = shell_quote(target.ca_file);
  std::string bundle = shell_quote(bundle_path(target.ca_file));
  return fmt::format(
      "{}\n\n"
      "Trust it\n"
      "  in this shell:       eval \"$(atoll env --tls)\"\n"
      "  in Node.js:          export NODE_EXTRA_CA_CERTS={}\n"
      "  in Python, curl:     export SSL_CERT_FILE={}\n"
      "  on this machine:     sudo cp {} /usr/local/share/ca-certificates/atoll.crt && sudo "
      "update-ca-certificates\n"
      "  in Firefox, Chrome:  Settings > Certificates > Authorities > Import\n\n"
      "Names of sandboxes are <port>-<id>.{}. Browsers resolve names below .localhost by themselves; for "
      "other\n"
      "programs install libnss-myhostname, or set E2B_SANDBOX_URL, which needs no names.\n",
      target.ca_file, file, bundle, file, target.domain);
}

Result<int> ca(const Options& options, const Globals& globals) {
  TRY(Target target, find_target(globals.instance));
  if (target.ca_file.empty()) {
    return make_error(Code::kNotFound, "no certificate is known for this installation")
        .with_hint("run 'sudo atoll up' on the machine that serves");
  }
  TRY(std::string pem, sys::read_file(target.ca_file, kMiB));
  if (globals.json)
    print_json(
        json::object({{"path", target.ca_file}, {"bundle", bundle_path(target.ca_file)}, {"pem", pem}}));
  else
    write_out(options.pem ? pem : advice(target));
  return kExitOk;
}

}  // namespace

void register_ca(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app = commands.add(nullptr, "ca", "show the TLS authority and how to trust it", kExamples,
                               [options](const Globals& globals) { return ca(*options, globals); });
  app.add_flag("--pem", options->pem, "print the certificate");
}

}  // namespace atl::cli
