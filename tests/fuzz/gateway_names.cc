// SPDX-License-Identifier: Apache-2.0
//
// Hosts, patterns and authorities of the gateway: what is read is canonical, so reading its text gives it
// again; and a name never gets past as something that a resolver would read as an address.
#include "base/check.h"
#include "gateway/names/address_class.h"
#include "gateway/names/authority.h"
#include "gateway/names/host_pattern.h"

namespace {

using namespace atl::gateway;

void check_host(const Host& host) {
  auto again = parse_host(host.text());
  CHECK(again.ok() && *again == host, "'{}' is not canonical", host.text());
  if (host.is_address()) {
    (void)classify(host.address());
    CHECK(parse_ip(host.address().text()).value() == host.address(), "{}", host.address().text());
    CHECK(!parse_host_pattern("*")->matches(host), "a wildcard matches {}", host.text());
    return;
  }
  CHECK(!parse_ip(host.name()).ok(), "the name '{}' is an address", host.name());
  CHECK(host.name().size() <= kMaxNameBytes, "a name of {} bytes", host.name().size());
  CHECK(host.name().find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string::npos, "{}",
        host.name());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto host = parse_host(text); host.ok()) check_host(*host);
  if (auto authority = parse_authority(text, 443); authority.ok()) {
    check_host(authority->host);
    CHECK(parse_authority(authority->text(), 0).value() == *authority, "{}", authority->text());
    CHECK(agree({.dialled = *authority, .host = text}).ok(), "'{}' does not agree with itself",
          authority->text());
  }
  if (auto pattern = parse_host_pattern(text, HostBits::kDrop); pattern.ok())
    CHECK(parse_host_pattern(pattern->text()).value() == *pattern, "{}", pattern->text());
  return 0;
}
