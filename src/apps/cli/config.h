// SPDX-License-Identifier: Apache-2.0
//
// What `atoll up` is told: /etc/atoll/atoll.toml, and flags that win over it. Every key is described in
// atoll.toml(5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace atl::cli {

inline constexpr char kGatewayUser[] = "atoll-gateway";  // whose secrets nobody else can read
inline constexpr char kDefaultConfig[] = "/etc/atoll/atoll.toml";

enum class Plain { kLoopback, kAnywhere };

struct Config {
  std::string instance = "atoll";
  std::string data_dir = "/var/lib/atoll";
  std::string run_dir = "/run/atoll";
  std::string user = "atoll";  // control runs as this user
  std::vector<std::string> listen = {"127.0.0.1:7400"};
  Plain plain = Plain::kLoopback;  // where plain HTTP is answered; TLS always is
  std::string domain = "atoll.localhost";
  std::uint32_t slot_first = 0;
  std::uint32_t slot_count = 256;
  std::uint32_t ready_sandboxes = 4;       // started ahead, per template
  bool base_template = true;               // build `base` at first start
  bool first_use = true;                   // build code-interpreter-v1 when it is first asked for
  std::string default_isolation = "auto";  // of sandboxes for which nobody asks for another
  bool microvm_emulation = false;          // allow the microvm tier without KVM
  std::uint32_t patience = 1;              // times the usual bounds of waiting for sandboxes
  bool evict_paused = false;               // memory of paused sandboxes goes to the host's swap
  bool gateway = true;                     // all egress through atoll-gateway
  std::string gateway_rules;               // a file with the operator's rules; empty: none
  std::uint32_t gateway_port = 7401;       // of this host, TCP and UDP; 0: any that is free
};

// Reads `text` over `base`. Unknown keys and wrong types are refused with `name`:line and a suggestion.
Result<Config> parse_config(std::string_view text, const std::string& name, Config base = {});
// The file, or the defaults when it does not exist and `required` is false.
enum class Required : bool { kNo, kYes };
Result<Config> load_config(const std::string& path, Required required);

// Rules that hold whatever the values came from: names, absolute paths, addresses, ranges that fit.
Result<void> check_config(const Config& config);

}  // namespace atl::cli
