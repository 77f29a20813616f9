// SPDX-License-Identifier: Apache-2.0
#include "gateway/dns/name_table.h"

#include <sodium.h>

#include <algorithm>

#include "gateway/names/host.h"

namespace atl::gateway::dns {
namespace {

constexpr std::uint32_t kFirst = 198u << 24 | 18u << 16 | 1u << 8;  // 198.18.1.0
constexpr std::uint32_t kEnd = 198u << 24 | 20u << 16;

static_assert(crypto_shorthash_KEYBYTES == std::tuple_size_v<NameTable::Key>);

bool usable(std::uint32_t address) {
  return address >= kFirst && address < kEnd && (address & 0xff) != 0 && (address & 0xff) != 0xff;
}

std::uint32_t address_number(std::uint64_t index) {
  return kFirst + static_cast<std::uint32_t>(index / 254 * 256 + 1 + index % 254);
}

}  // namespace

NameTable::NameTable(const Key& key, std::size_t names_per_tenant)
    : key_(key),
      names_per_tenant_(std::clamp<std::size_t>(names_per_tenant, 1, kMaxSyntheticAddresses / 2)) {}

// By a keyed hash, so that a sandbox learns nothing from its addresses about names or their number, and a
// name that was dropped comes back where it was. At most half of the addresses are taken: a second try is
// rarely needed.
std::uint32_t NameTable::free_address(const Tenant& tenant, std::string_view tenant_name,
                                      std::string_view name) const {
  std::string text = fmt::format("{}\n{}\n", tenant_name, name);
  for (std::uint32_t attempt = 0;; ++attempt) {
    std::array<unsigned char, crypto_shorthash_BYTES> hash{};
    std::string salted = text + std::to_string(attempt);
    crypto_shorthash(hash.data(), reinterpret_cast<const unsigned char*>(salted.data()), salted.size(),
                     key_.data());
    std::uint64_t number = 0;
    for (unsigned char byte : hash) number = number << 8 | byte;
    std::uint32_t address = address_number(number % kMaxSyntheticAddresses);
    if (!tenant.by_address.contains(address)) return address;
  }
}

void NameTable::add(Tenant& tenant, std::string_view name, std::uint32_t address, std::string_view sandbox) {
  auto entry =
      tenant.by_use.insert(tenant.by_use.end(), {std::string(name), address, std::string(sandbox), {}});
  tenant.by_name.emplace(entry->name, entry);
  tenant.by_address.emplace(address, entry);
  if (sandbox.empty()) return;
  Own& own = tenant.own[entry->maker];
  entry->place = own.insert(own.end(), entry);
}

void NameTable::disown(Tenant& tenant, Entry& entry) {
  if (entry.maker.empty()) return;
  auto own = tenant.own.find(entry.maker);
  own->second.erase(entry.place);
  if (own->second.empty()) tenant.own.erase(own);
  entry.maker.clear();
}

void NameTable::used(Tenant& tenant, Entries::iterator entry, std::string_view sandbox) {
  tenant.by_use.splice(tenant.by_use.end(), tenant.by_use, entry);
  if (entry->maker.empty()) return;
  // What a second one uses is no longer the first one's to lose.
  if (entry->maker != sandbox) return disown(tenant, *entry);
  Own& own = tenant.own.find(sandbox)->second;
  own.splice(own.end(), own, entry->place);
}

std::optional<NameRow> NameTable::make_room(Tenant& tenant, std::string_view tenant_name,
                                            std::string_view sandbox) {
  auto going = tenant.by_use.end();
  auto own = tenant.own.find(sandbox);
  if (own != tenant.own.end() &&
      own->second.size() >= std::max<std::size_t>(names_per_tenant_ / kSandboxPart, 1)) {
    going = own->second.front();
  } else if (tenant.by_use.size() >= names_per_tenant_) {
    going = tenant.by_use.begin();
  }
  if (going == tenant.by_use.end()) return std::nullopt;
  disown(tenant, *going);
  tenant.by_name.erase(going->name);
  tenant.by_address.erase(going->address);
  NameRow out{std::string(tenant_name), std::move(going->name), IpAddress::v4(going->address)};
  tenant.by_use.erase(going);
  return out;
}

NameTable::Assigned NameTable::assign(std::string_view tenant_name, std::string_view name,
                                      std::string_view sandbox) {
  auto found = tenants_.find(tenant_name);
  if (found == tenants_.end()) found = tenants_.emplace(std::string(tenant_name), Tenant()).first;
  Tenant& tenant = found->second;
  if (auto known = tenant.by_name.find(name); known != tenant.by_name.end()) {
    used(tenant, known->second, sandbox);
    return {.address = IpAddress::v4(known->second->address)};
  }
  Assigned out{.fresh = true, .dropped = make_room(tenant, tenant_name, sandbox)};
  std::uint32_t address = free_address(tenant, tenant_name, name);
  add(tenant, name, address, sandbox);
  out.address = IpAddress::v4(address);
  return out;
}

std::optional<std::string> NameTable::name_of(std::string_view tenant_name, const IpAddress& address,
                                              std::string_view sandbox) {
  auto found = tenants_.find(tenant_name);
  if (found == tenants_.end() || !address.is_v4()) return std::nullopt;
  Tenant& tenant = found->second;
  auto entry = tenant.by_address.find(address.v4_value());
  if (entry == tenant.by_address.end()) return std::nullopt;
  used(tenant, entry->second, sandbox);
  return entry->second->name;
}

std::vector<NameRow> NameTable::rows() const {
  std::vector<NameRow> out;
  for (const auto& [name, tenant] : tenants_) {
    for (const Entry& entry : tenant.by_use) out.push_back({name, entry.name, IpAddress::v4(entry.address)});
  }
  return out;
}

bool NameTable::restore(const NameRow& row) {
  auto host = parse_host(row.name);
  bool canonical = host.ok() && !host->is_address() && host->name() == row.name;
  if (!canonical || row.tenant.empty() || !row.address.is_v4() || !usable(row.address.v4_value()))
    return false;
  Tenant& tenant = tenants_[row.tenant];
  if (tenant.by_name.contains(row.name) || tenant.by_address.contains(row.address.v4_value()) ||
      tenant.by_use.size() >= names_per_tenant_)
    return false;
  add(tenant, row.name, row.address.v4_value(), "");
  return true;
}

void NameTable::forget(std::string_view tenant) {
  if (auto found = tenants_.find(tenant); found != tenants_.end()) tenants_.erase(found);
}

std::size_t NameTable::size(std::string_view tenant) const {
  auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.by_use.size();
}

}  // namespace atl::gateway::dns
