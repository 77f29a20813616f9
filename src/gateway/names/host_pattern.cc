// SPDX-License-Identifier: Apache-2.0
#include "gateway/names/host_pattern.h"

#include "base/text.h"

namespace atl::gateway {
namespace {

Error wrong(std::string_view text, std::string_view why) {
  return make_error(Code::kInvalid, "'{}' is not a pattern of hosts: {}", printable(text.substr(0, 128)), why)
      .with_word("invalid_host")
      .with_hint("write a name, *.name, *, an address, or a block like 203.0.113.0/24");
}

}  // namespace

bool HostPattern::any_name() const {
  const auto* below = std::get_if<Below>(&value_);
  return below && below->suffix.empty();
}

bool HostPattern::matches(const Host& host) const {
  return host.is_address() ? matches_address(host.address()) : matches_name(host.name());
}

bool HostPattern::matches_name(std::string_view canonical_name) const {
  if (const auto* name = std::get_if<Name>(&value_)) return name->exact == canonical_name;
  const auto* below = std::get_if<Below>(&value_);
  return below && canonical_name.size() > below->suffix.size() && canonical_name.ends_with(below->suffix);
}

bool HostPattern::matches_address(const IpAddress& address) const {
  const auto* block = std::get_if<Cidr>(&value_);
  return block && block->contains(address);
}

std::string HostPattern::text() const {
  if (const auto* name = std::get_if<Name>(&value_)) return name->exact;
  if (const auto* below = std::get_if<Below>(&value_)) return "*" + below->suffix;
  const Cidr& block = std::get<Cidr>(value_);
  return block.prefix() == block.base().bits() ? block.base().text() : block.text();
}

Result<HostPattern> parse_host_pattern(std::string_view text, HostBits host_bits) {
  if (text == "*") return HostPattern(HostPattern::Below{});
  if (text.starts_with("*.")) {
    TRY(Host host, parse_host(text.substr(2)));
    if (host.is_address()) return wrong(text, "a wildcard cannot stand before an address");
    return HostPattern(HostPattern::Below{"." + host.name()});
  }
  if (text.find('*') != std::string_view::npos)
    return wrong(text, "a wildcard stands for whole labels, at the beginning only");
  bool bare_v6 = text.find(':') != std::string_view::npos && !text.starts_with('[');
  if (bare_v6 || text.find('/') != std::string_view::npos) {
    auto block = parse_cidr(text, host_bits);
    if (!block.ok()) return wrong(text, block.error().message());
    return HostPattern(*block);
  }
  TRY(Host host, parse_host(text));
  if (host.is_address()) return HostPattern(Cidr(host.address(), host.address().bits()));
  return HostPattern(HostPattern::Name{host.name()});
}

}  // namespace atl::gateway
