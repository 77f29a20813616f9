// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/env_lines.h"

#include <fmt/format.h>

#include "apps/cli/shell_quote.h"

namespace atl::cli {

std::string bundle_path(const std::string& ca_file) {
  std::string base = ca_file.ends_with(".pem") ? ca_file.substr(0, ca_file.size() - 4) : ca_file;
  return base + "-bundle.pem";
}

EnvLines env_lines(const Target& target, Transport transport) {
  EnvLines lines;
  bool named = transport == Transport::kTls;
  if (named) {
    lines.unset = {"E2B_API_URL", "E2B_SANDBOX_URL"};
    lines.set.emplace_back("E2B_DOMAIN", target.domain);
  } else {
    lines.set.emplace_back("E2B_API_URL", target.api_url);
    lines.set.emplace_back("E2B_SANDBOX_URL", target.sandbox_url);
  }
  if ((named || target.api_url.starts_with("https://")) && !target.ca_file.empty()) {
    lines.set.emplace_back("NODE_EXTRA_CA_CERTS", target.ca_file);  // Node adds it to its own list
    lines.set.emplace_back("SSL_CERT_FILE",
                           bundle_path(target.ca_file));  // Python takes one file instead of its list
  }
  lines.set.emplace_back("E2B_API_KEY", target.api_key.reveal());
  return lines;
}

std::string shell_lines(const EnvLines& lines) {
  std::string out;
  if (!lines.unset.empty()) out += "unset " + shell_join(lines.unset) + "\n";
  for (const auto& [name, value] : lines.set) out += fmt::format("export {}={}\n", name, shell_quote(value));
  return out;
}

}  // namespace atl::cli
