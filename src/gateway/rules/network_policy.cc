// SPDX-License-Identifier: Apache-2.0
#include "gateway/rules/network_policy.h"

#include "gateway/policy/e2b.h"
#include "http/json.h"

namespace atl::gateway {
namespace {

namespace json = boost::json;
using http::Fields;

constexpr std::size_t kMaxHosts = 64;

void read_transforms(Fields& fields, policy::E2bNetwork& out) {
  auto hosts = fields.object("rules");
  if (!hosts) return;
  if (hosts->raw().size() > kMaxHosts) fields.refuse("rules", "too many hosts");
  for (const auto& [host, headers] : hosts->raw()) {
    std::string name(host.data(), host.size());
    if (auto map = hosts->map(name, policy::kMaxSetHeaders, policy::kMaxHeaderValue)) out.rules[name] = *map;
  }
}

}  // namespace

Result<policy::RuleSet> read_network(const json::object& network) {
  Fields fields(network);
  policy::E2bNetwork out;
  out.allow_internet_access = fields.boolean("internet").value_or(true);
  out.allow_out = fields.texts("allow", policy::kMaxE2bEntries).value_or(std::vector<std::string>());
  out.deny_out = fields.texts("deny", policy::kMaxE2bEntries).value_or(std::vector<std::string>());
  read_transforms(fields, out);
  const json::array* ports = fields.array("httpsPorts");
  for (const json::value& port : ports ? *ports : json::array()) {
    if (port.is_int64()) out.https_ports.push_back(static_cast<std::uint16_t>(port.get_int64()));
  }
  TRY_VOID(fields.status());
  return policy::rules_from_e2b(out);
}

Result<std::shared_ptr<const policy::Policy>> compile_network(const json::object& network,
                                                              std::vector<policy::RuleSet> above) {
  TRY(policy::RuleSet own, read_network(network));
  above.push_back(std::move(own));
  return policy::Policy::compile(std::move(above));
}

}  // namespace atl::gateway
