// SPDX-License-Identifier: Apache-2.0
#include "control/quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/units.h"

namespace atl::control {
namespace {

struct Kind {
  std::uint64_t Amounts::* amount;
  const char* name;
  std::uint64_t unit;
  const char* unit_name;
  const char* holders = "sandboxes";
};
constexpr std::array kSums = {
    Kind{&Amounts::memory_bytes, "memory", kMiB, " MiB"},
    Kind{&Amounts::cpu_millis, "CPU", 1, " thousandths of a core"},
    Kind{&Amounts::processes, "processes", 1, ""},
    Kind{&Amounts::disk_bytes, "disk", kMiB, " MiB", "sandboxes and snapshots"},
};

// What of `limit` the sum of `held` and `demand` breaks; empty when nothing.
std::string too_much(const Amounts& held, const Amounts& demand, const Amounts& limit) {
  if (demand.sandboxes > 0 && std::uint64_t(held.sandboxes) + demand.sandboxes > limit.sandboxes)
    return fmt::format("{} sandboxes, which is its limit", held.sandboxes);
  for (const Kind& kind : kSums) {
    std::uint64_t most = limit.*kind.amount, now = held.*kind.amount, more = demand.*kind.amount;
    if (most == 0 || more == 0 || (now <= most && more <= most - now)) continue;
    return fmt::format("{5} with {1}{4} of {0} together; {2}{4} more would break its limit of {3}{4}",
                       kind.name, now / kind.unit, more / kind.unit, most / kind.unit, kind.unit_name,
                       kind.holders);
  }
  return {};
}

void take_off(Amounts& sum, const Amounts& less) {
  CHECK(sum.sandboxes >= less.sandboxes, "more sandboxes given back than taken");
  sum.sandboxes -= less.sandboxes;
  for (const Kind& kind : kSums) {
    CHECK(sum.*kind.amount >= less.*kind.amount, "more {} given back than taken", kind.name);
    sum.*kind.amount -= less.*kind.amount;
  }
}

}  // namespace

void add(Amounts& sum, const Amounts& more) {
  sum.sandboxes += more.sandboxes;
  for (const Kind& kind : kSums) sum.*kind.amount += more.*kind.amount;
}

Amounts amounts_of(const model::Limits& limits, const model::Overhead& overhead) {
  return {1, limits.memory_bytes + overhead.memory_bytes, limits.cpu_millis,
          limits.processes + overhead.processes, limits.disk_bytes};
}

Amounts on_disk(std::uint64_t bytes) {
  Amounts out;
  out.disk_bytes = bytes;
  return out;
}

Result<void> Quota::check(const std::string& tenant, const Amounts& demand, const Amounts& limit) const {
  auto found = tenants_.find(tenant);
  std::string what = too_much(found == tenants_.end() ? Amounts() : found->second.now, demand, limit);
  if (what.empty()) return {};
  return make_error(Code::kExhausted, "the tenant has {}", what)
      .with_word("quota")
      .with_hint(
          "kill sandboxes and remove snapshots that are no longer needed, or raise the tenant's limit");
}

Result<Quota::Place> Quota::reserve(const std::string& tenant, const Amounts& demand, const Amounts& limit) {
  if (!tenant.empty()) TRY_VOID(check(tenant, demand, limit));
  if (std::string what = too_much(host_, demand, host_limit_); !what.empty()) {
    return make_error(Code::kUnavailable, "this host holds {}", what)
        .with_word("capacity")
        .with_hint("try again when sandboxes have ended, or start Atoll with room for more");
  }
  return adopt(tenant, demand);
}

bool Quota::host_fits(const Amounts& demand, const Amounts& freed) const {
  Amounts left = host_;
  take_off(left, freed);
  return too_much(left, demand, host_limit_).empty();
}

Quota::Place Quota::adopt(const std::string& tenant, const Amounts& demand) {
  add(host_, demand);
  Count& count = tenants_[tenant];
  add(count.now, demand);
  count.highest = std::max(count.highest, count.now.sandboxes);
  return Place(shared_from_this(), tenant, demand);
}

Quota::Place Quota::convert(Place pool_place, const std::string& tenant) {
  Amounts held = pool_place.held_;
  pool_place.release();
  return adopt(tenant, held);
}

void Quota::give_back(const std::string& tenant, const Amounts& held) {
  take_off(host_, held);
  take_off(tenants_[tenant].now, held);
}

std::uint32_t Quota::held_by(const std::string& tenant) const {
  auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.now.sandboxes;
}

std::uint32_t Quota::highest(const std::string& tenant) const {
  auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.highest;
}

}  // namespace atl::control
