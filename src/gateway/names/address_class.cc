// SPDX-License-Identifier: Apache-2.0
#include "gateway/names/address_class.h"

#include <algorithm>
#include <optional>

namespace atl::gateway {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

struct Range4 {
  std::uint32_t base;
  int prefix;
  AddressClass kind;
};

constexpr std::uint32_t quad(unsigned a, unsigned b, unsigned c, unsigned d) {
  return a << 24 | b << 16 | c << 8 | d;
}

// The first that holds the address counts: metadata services before the ranges that they lie in.
constexpr Range4 kRanges4[] = {
    {quad(169, 254, 169, 254), 32, AddressClass::kMetadata},  // nearly all clouds
    {quad(169, 254, 170, 2), 32, AddressClass::kMetadata},    // containers of AWS
    {quad(169, 254, 170, 23), 32, AddressClass::kMetadata},   // pods of AWS
    {quad(169, 254, 42, 42), 32, AddressClass::kMetadata},    // Scaleway
    {quad(100, 100, 100, 200), 32, AddressClass::kMetadata},  // Alibaba
    {quad(168, 63, 129, 16), 32, AddressClass::kMetadata},    // Azure's wire server, in a public range
    {quad(192, 0, 0, 192), 32, AddressClass::kMetadata},      // Oracle
    {quad(0, 0, 0, 0), 8, AddressClass::kUnspecified},
    {quad(10, 0, 0, 0), 8, AddressClass::kPrivate},
    {quad(100, 64, 0, 0), 10, AddressClass::kCarrierNat},
    {quad(127, 0, 0, 0), 8, AddressClass::kLoopback},
    {quad(169, 254, 0, 0), 16, AddressClass::kLinkLocal},
    {quad(172, 16, 0, 0), 12, AddressClass::kPrivate},
    {quad(192, 0, 0, 0), 24, AddressClass::kReserved},  // protocol assignments
    {quad(192, 0, 2, 0), 24, AddressClass::kDocumentation},
    {quad(192, 31, 196, 0), 24, AddressClass::kReserved},  // AS112
    {quad(192, 52, 193, 0), 24, AddressClass::kReserved},  // AMT relays
    {quad(192, 88, 99, 0), 24, AddressClass::kReserved},   // 6to4 relays
    {quad(192, 168, 0, 0), 16, AddressClass::kPrivate},
    {quad(192, 175, 48, 0), 24, AddressClass::kReserved},  // AS112
    {quad(198, 18, 0, 0), 15, AddressClass::kBenchmark},
    {quad(198, 51, 100, 0), 24, AddressClass::kDocumentation},
    {quad(203, 0, 113, 0), 24, AddressClass::kDocumentation},
    {quad(224, 0, 0, 0), 4, AddressClass::kMulticast},
    {quad(255, 255, 255, 255), 32, AddressClass::kBroadcast},
    {quad(240, 0, 0, 0), 4, AddressClass::kReserved},
};

AddressClass classify4(std::uint32_t value) {
  for (const Range4& range : kRanges4) {
    std::uint32_t mask = ~std::uint32_t{0} << (32 - range.prefix);
    if ((value & mask) == range.base) return range.kind;
  }
  return AddressClass::kPublic;
}

struct Range6 {
  const char* block;
  AddressClass kind;
};

constexpr Range6 kRanges6[] = {
    {"fd00:ec2::/32", AddressClass::kMetadata},           // AWS
    {"fd20:ce::254/128", AddressClass::kMetadata},        // Google
    {"fd00:42::42/128", AddressClass::kMetadata},         // Scaleway
    {"fd00:c1::a9fe:a9fe/128", AddressClass::kMetadata},  // Oracle
    {"::/128", AddressClass::kUnspecified},
    {"::1/128", AddressClass::kLoopback},
    {"fe80::/10", AddressClass::kLinkLocal},
    {"fc00::/7", AddressClass::kUniqueLocal},
    {"ff00::/8", AddressClass::kMulticast},
    {"2001:2::/48", AddressClass::kBenchmark},
    {"2001:db8::/32", AddressClass::kDocumentation},
    {"3fff::/20", AddressClass::kDocumentation},
    {"2001::/23", AddressClass::kReserved},          // protocol assignments; Teredo and ORCHID among them
    {"2620:4f:8000::/48", AddressClass::kReserved},  // AS112
};

const std::vector<std::pair<Cidr, AddressClass>>& ranges6() {
  static const auto kRanges = [] {
    std::vector<std::pair<Cidr, AddressClass>> out;
    for (const Range6& range : kRanges6) out.emplace_back(parse_cidr(range.block).value(), range.kind);
    return out;
  }();
  return kRanges;
}

IpAddress four(const Bytes& bytes, std::size_t at) {
  return IpAddress::v4({bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]});
}

bool zero(const Bytes& bytes, std::size_t from, std::size_t to) {
  return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                     bytes.begin() + static_cast<std::ptrdiff_t>(to), [](std::uint8_t b) { return b == 0; });
}

bool starts(const Bytes& bytes, std::initializer_list<std::uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), bytes.begin());
}

bool is_nat64(const Bytes& bytes) { return starts(bytes, {0, 0x64, 0xff, 0x9b}) && zero(bytes, 4, 12); }

bool is_isatap(const Bytes& bytes) {
  return (bytes[8] & 0xfd) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe;
}

AddressClass classify6(const IpAddress& address) {
  for (const auto& [block, kind] : ranges6()) {
    if (kind != AddressClass::kReserved && block.contains(address)) return kind;
  }
  auto carried = carried_addresses(address);
  for (const IpAddress& inner : carried) {
    auto kind = classify4(inner.v4_value());
    if (kind != AddressClass::kPublic) return kind;
  }
  if (!carried.empty()) return is_nat64(address.bytes()) ? AddressClass::kPublic : AddressClass::kReserved;
  for (const auto& [block, kind] : ranges6()) {
    if (block.contains(address)) return kind;
  }
  // Of all the rest only 2000::/3 was ever handed out.
  return (address.bytes()[0] & 0xe0) == 0x20 ? AddressClass::kPublic : AddressClass::kReserved;
}

}  // namespace

std::string_view address_class_name(AddressClass kind) {
  switch (kind) {
    case AddressClass::kPublic: return "public";
    case AddressClass::kUnspecified: return "unspecified";
    case AddressClass::kLoopback: return "loopback";
    case AddressClass::kLinkLocal: return "link-local";
    case AddressClass::kMetadata: return "metadata";
    case AddressClass::kPrivate: return "private";
    case AddressClass::kCarrierNat: return "carrier-nat";
    case AddressClass::kUniqueLocal: return "unique-local";
    case AddressClass::kMulticast: return "multicast";
    case AddressClass::kBroadcast: return "broadcast";
    case AddressClass::kBenchmark: return "benchmark";
    case AddressClass::kDocumentation: return "documentation";
    case AddressClass::kReserved: return "reserved";
  }
  return "unknown";
}

std::vector<IpAddress> carried_addresses(const IpAddress& address) {
  if (address.is_v4()) return {};
  const Bytes& bytes = address.bytes();
  if (zero(bytes, 0, 12) && !zero(bytes, 12, 15)) return {four(bytes, 12)};  // compatible, RFC 4291
  if (zero(bytes, 0, 8) && bytes[8] == 0xff && bytes[9] == 0xff && zero(bytes, 10, 12))
    return {four(bytes, 12)};  // translated, RFC 2765
  if (is_nat64(bytes)) return {four(bytes, 12)};
  // A site's own NAT64 (RFC 8215) may put the address behind a /48, /56, /64 or /96; the last is usual.
  if (starts(bytes, {0, 0x64, 0xff, 0x9b, 0, 1})) return {four(bytes, 12)};
  if (starts(bytes, {0x20, 0x02})) return {four(bytes, 2)};  // 6to4, RFC 3056
  if (starts(bytes, {0x20, 0x01, 0, 0})) {                   // Teredo, RFC 4380: server, inverted client
    auto client = four(bytes, 12).v4_value();
    return {four(bytes, 4), IpAddress::v4(~client)};
  }
  if (is_isatap(bytes)) return {four(bytes, 12)};
  return {};
}

AddressClass classify(const IpAddress& address) {
  return address.is_v4() ? classify4(address.v4_value()) : classify6(address);
}

bool may_be_opened(AddressClass kind) {
  switch (kind) {
    case AddressClass::kPrivate:
    case AddressClass::kUniqueLocal:
    case AddressClass::kDocumentation: return true;
    default: return false;
  }
}

bool names_openable(const Cidr& block) {
  static const auto kRanges = [] {
    std::vector<Cidr> out;
    for (const Range4& range : kRanges4) {
      if (may_be_opened(range.kind)) out.emplace_back(IpAddress::v4(range.base), range.prefix);
    }
    for (const auto& [range, kind] : ranges6()) {
      if (may_be_opened(kind)) out.push_back(range);
    }
    return out;
  }();
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [&](const Cidr& range) { return range.contains(block); });
}

}  // namespace atl::gateway
