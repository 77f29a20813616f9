// SPDX-License-Identifier: Apache-2.0
#include "gateway/rules/egress_proxy.h"

#include "gateway/policy/e2b.h"
#include "gateway/vault/proxy_password.h"
#include "http/json.h"

namespace atl::gateway {
namespace {

constexpr std::size_t kMaxField = 1024;

}  // namespace

Result<std::shared_ptr<const EgressProxy>> read_egress_proxy(const vault::Vault& vault,
                                                             const std::string& tenant,
                                                             const boost::json::object& network,
                                                             std::vector<policy::RuleSet> above) {
  http::Fields fields(network);
  auto object = fields.object("proxy");
  TRY_VOID(fields.status());
  std::shared_ptr<const EgressProxy> out;
  if (!object) return out;
  auto authority = parse_authority(object->text("address", kMaxField).value_or(""), 0);
  if (!authority.ok()) return std::move(authority).error().context("egressProxy.address");
  std::string user = object->text("username", kMaxField).value_or("");
  std::string sealed = object->text("sealedPassword", kMaxField).value_or("");
  TRY_VOID(fields.status());
  TRY(Secret password, vault::unseal_proxy_password(vault, tenant, sealed));
  Proxy socks{*std::move(authority), std::move(user), std::move(password)};
  TRY_VOID(check_proxy(socks));
  TRY(policy::RuleSet open, policy::rules_from_e2b({}));
  above.push_back(std::move(open));
  TRY(auto reach, policy::Policy::compile(std::move(above)));
  EgressProxy proxy{std::make_shared<const Proxy>(std::move(socks)), std::move(reach)};
  out = std::make_shared<const EgressProxy>(std::move(proxy));
  return out;
}

bool same_proxy(const EgressProxy* one, const EgressProxy* other) {
  if (one == nullptr || other == nullptr) return one == other;
  return one->socks->authority == other->socks->authority && one->socks->user == other->socks->user &&
         one->socks->password.matches(other->socks->password.reveal());
}

}  // namespace atl::gateway
