// SPDX-License-Identifier: Apache-2.0
//
// Which address of 198.18.0.0/15 stands for which name, for each tenant by itself. An address outlives the
// answer that told it: programs keep it, also over a pause and a restart of the gateway, so the caller stores
// the rows.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/names/ip_address.h"

namespace atl::gateway::dns {

// 198.18.0.0/24 stays free for the platform, and no address ends in 0 or 255.
inline constexpr std::size_t kMaxSyntheticAddresses = 511 * 254;

// One name of one tenant, as it is stored.
struct NameRow {
  std::string tenant;
  std::string name;  // canonical
  IpAddress address;
  bool operator==(const NameRow&) const = default;
};

// Everything runs on one thread.
class NameTable {
 public:
  using Key = std::array<std::uint8_t, 16>;
  // The key makes addresses unforeseeable; it is stored like the rows, so that a name gets its old address
  // again when it is free. `names_per_tenant`: more are not kept, the longest unused goes; at most half of
  // all addresses, so that a free one is found at once.
  explicit NameTable(const Key& key, std::size_t names_per_tenant = 16384);
  // A sandbox that makes more than this part of a tenant's names loses its own, not those that others use.
  static constexpr std::size_t kSandboxPart = 16;

  struct Assigned {
    IpAddress address;
    bool fresh = false;              // to be stored before it is told
    std::optional<NameRow> dropped;  // to be removed from what is stored
  };
  // The address of a name, made when it has none. Counts as use by `sandbox`.
  Assigned assign(std::string_view tenant, std::string_view name, std::string_view sandbox);

  // The name behind an address; nullopt when the tenant has none there. Counts as use by `sandbox`.
  std::optional<std::string> name_of(std::string_view tenant, const IpAddress& address,
                                     std::string_view sandbox);

  // All rows, the longest unused of each tenant first.
  std::vector<NameRow> rows() const;
  // Takes stored rows in that order into an empty table. False for a row that cannot be: an address out of
  // range or taken, a name that is known or not canonical.
  bool restore(const NameRow& row);
  // The tenant is gone.
  void forget(std::string_view tenant);
  std::size_t size(std::string_view tenant) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Entry;
  using Entries = std::list<Entry>;
  using Own = std::list<Entries::iterator>;
  struct Entry {
    std::string name;
    std::uint32_t address = 0;
    std::string maker;    // the sandbox that alone has used it so far; empty: several, or it is not known
    Own::iterator place;  // among those of `maker`
  };
  struct Tenant {
    Entries by_use;                                                   // longest unused first
    std::unordered_map<std::string_view, Entries::iterator> by_name;  // keys point into by_use
    std::unordered_map<std::uint32_t, Entries::iterator> by_address;
    // Of each maker, longest unused first; none is empty.
    std::unordered_map<std::string, Own, Hash, std::equal_to<>> own;
  };

  std::uint32_t free_address(const Tenant& tenant, std::string_view tenant_name, std::string_view name) const;
  static void add(Tenant& tenant, std::string_view name, std::uint32_t address, std::string_view sandbox);
  static void used(Tenant& tenant, Entries::iterator entry, std::string_view sandbox);
  static void disown(Tenant& tenant, Entry& entry);
  std::optional<NameRow> make_room(Tenant& tenant, std::string_view tenant_name, std::string_view sandbox);

  Key key_;
  std::size_t names_per_tenant_;
  std::unordered_map<std::string, Tenant, Hash, std::equal_to<>> tenants_;
};

}  // namespace atl::gateway::dns
