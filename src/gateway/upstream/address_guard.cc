// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/address_guard.h"

#include "gateway/names/address_class.h"
#include "net/own_address.h"

namespace atl::gateway {

Result<void> check_world(const IpAddress& address) {
  auto kind = classify(address);
  if (kind != AddressClass::kPublic) {
    return make_error(Code::kDenied, "address {} is not of the world: {}", address.text(),
                      address_class_name(kind))
        .with_word("address_denied");
  }
  if (net::is_own_address(address.text())) {
    return make_error(Code::kDenied, "address {} is this machine's own", address.text())
        .with_word("address_denied");
  }
  return success();
}

Task<Result<std::vector<IpAddress>>> checked_addresses(std::shared_ptr<Resolver> resolver, Host host,
                                                       AddressCheck check, std::string asker) {
  std::vector<IpAddress> found;
  if (host.is_address()) {
    found.push_back(host.address());
  } else {
    CO_TRY(found, co_await resolver->resolve(host.name(), std::move(asker)));
  }
  std::vector<IpAddress> out;
  std::optional<Error> refusal;
  for (const auto& address : found) {
    auto verdict = check(address);
    if (verdict.ok()) out.push_back(address);
    if (!verdict.ok() && !refusal) refusal = std::move(verdict).error();
  }
  if (out.empty() && refusal) co_return std::move(*refusal).context(host.text());
  co_return out;
}

}  // namespace atl::gateway
