// SPDX-License-Identifier: Apache-2.0
//
// Names: which synthetic address stands for which name, kept over restarts. They are a tenant's own, so that
// nobody learns of others' names, and the same in all sandboxes of that tenant, so that copies of one go on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/dns/name_table.h"
#include "store/database.h"

namespace atl::gateway {

// 198.18.0.0/15 (RFC 2544) is never routed, so what is synthetic cannot be mistaken.
bool is_synthetic(const IpAddress& address);

// Use from one loop.
class Names {
 public:
  // Opens or makes the file at `path`; `secret` makes addresses unforeseeable. Blocking.
  static Result<std::unique_ptr<Names>> open(const std::string& path, std::string_view secret);

  // The address that stands for this canonical name, made and stored when there is none. `sandbox` asks.
  async::Task<Result<IpAddress>> address_of(std::string tenant, std::string name, std::string sandbox);
  // The name that this address stands for; nothing when it stands for none. `sandbox` dials it.
  std::optional<std::string> name_of(std::string_view tenant, const IpAddress& address,
                                     std::string_view sandbox) {
    return table_.name_of(tenant, address, sandbox);
  }

 private:
  Names(std::unique_ptr<store::Database> db, const dns::NameTable::Key& key)
      : db_(std::move(db)), table_(key) {}
  Result<void> load();

  std::unique_ptr<store::Database> db_;
  dns::NameTable table_;
};

}  // namespace atl::gateway
