// SPDX-License-Identifier: Apache-2.0
//
// What a sandbox is: its states, limits, network rules. Plain data and rules, no I/O.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace atl::model {

enum class Tier : std::uint8_t { kContainer = 1, kGvisor = 2, kMicrovm = 3 };
std::string_view tier_name(Tier tier);
std::optional<Tier> parse_tier(std::string_view name);

// Passing states have a bound; see state.h for the legal transitions.
enum class State : std::uint8_t {
  kReady = 1,  // in the pool: started ahead, owned by nobody
  kCreating,
  kRunning,
  kPausing,
  kPaused,
  kResuming,
  kStopping,
  kStopped,
  kFailed,
};
std::string_view state_name(State state);
std::optional<State> parse_state(std::string_view name);

struct Limits {
  std::uint64_t memory_bytes = 1024ull << 20;
  std::uint32_t cpu_millis = 2000;  // 1000 = one core
  std::uint32_t processes = 512;
  std::uint32_t open_files = 8192;
  std::uint64_t disk_bytes = 4096ull << 20;
  bool operator==(const Limits&) const = default;
};

// One address block. IPv4 only in sandboxes today; IPv6 is closed.
struct Cidr {
  std::array<std::uint8_t, 4> address{};
  std::uint8_t prefix = 32;
  bool operator==(const Cidr&) const = default;
};
// "1.2.3.4" or "1.2.3.0/24"; strict decimal, no leading zeros, host bits must be zero.
std::optional<Cidr> parse_cidr(std::string_view text);
std::string format_cidr(const Cidr& cidr);

// A SOCKS5 proxy that everything out of the sandbox takes.
struct EgressProxy {
  std::string address;          // "host:port"
  std::string username;         // empty: no authentication
  std::string sealed_password;  // by the gateway, which alone can open it
  bool operator==(const EgressProxy&) const = default;
};

// What a sandbox may reach. allow beats deny, and no rule ever opens a private, link-local, metadata or host
// range. Names and headers need the gateway; the kernel knows addresses only.
struct NetworkRules {
  bool internet = true;  // policy `open`; false = closed but for `allow`
  std::vector<Cidr> allow;
  std::vector<Cidr> deny;
  std::vector<std::string> names;  // that are allowed: "a.example", "*.example", "*"
  std::map<std::string, std::map<std::string, std::string>> headers;  // host -> header -> value, to be set
  std::vector<std::uint16_t> https_ports;                             // besides 443
  std::optional<EgressProxy> proxy;
  bool operator==(const NetworkRules&) const = default;
  bool needs_gateway() const {
    return !names.empty() || !headers.empty() || !https_ports.empty() || proxy.has_value();
  }
};
inline constexpr std::size_t kMaxNetworkRules = 64;  // of each list

// The name of a label of commands: 1 to 64 letters, digits, '-', '_' or '.', as in rules.
bool valid_label(std::string_view name);

// Sandbox id: 'i' + 20 of [a-z0-9]. Safe as a DNS label behind a port prefix.
std::string new_sandbox_id();
bool valid_sandbox_id(std::string_view id);

// Snapshot id: 20 of [a-z0-9], the form of template ids, since a snapshot stands where a template may stand.
std::string new_snapshot_id();
bool valid_snapshot_id(std::string_view id);

}  // namespace atl::model
