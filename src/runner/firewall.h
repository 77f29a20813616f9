// SPDX-License-Identifier: Apache-2.0
//
// The egress rules of all slots: one nftables table, made in one transaction, changed in batches, with sets
// keyed by the slot's link. A packet belongs to the slot that it came from, whatever it says. Rules are
// checked for every packet, not only the first of a flow, so that a narrowed policy cuts open flows.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/sandbox.h"
#include "runner/slots.h"

struct nft_ctx;

namespace atl::runner {

class Firewall {
 public:
  // `egress_port`: where the gateway listens on this host, TCP and UDP; 0: there is none, and address rules
  // alone decide.
  Firewall(std::string instance, SlotRange range, std::uint16_t egress_port);
  ~Firewall();

  // Replaces our table: every slot of the range gets policy `open`, but those in `rules` get theirs. Atomic.
  // `labels`: how many each slot has.
  Result<void> install(std::map<std::uint32_t, model::NetworkRules> rules,
                       std::map<std::uint32_t, std::uint32_t> labels = {});
  // In force when this returns.
  Result<void> apply(std::uint32_t slot, const model::NetworkRules& rules);
  // What processes with labels 1 to `count` send is let in, under the aliases of these (labels.h).
  Result<void> apply_labels(std::uint32_t slot, std::uint32_t count);
  // Back to what a slot without an owner has.
  Result<void> reset(std::uint32_t slot);
  // After a change of the ruleset by someone: puts our table back if it is not as we left it. True when it
  // had to.
  Result<bool> repair();
  // Takes the table away. Only when no sandbox is left.
  void remove();

 private:
  Result<std::string> run(const std::string& commands, bool terse = false);
  std::set<std::uint32_t> slots() const;
  std::string table() const;
  std::string chains() const;
  Result<void> install_locked();
  Result<void> change_locked(std::uint32_t slot, const model::NetworkRules& rules);
  Result<void> change_labels_locked(std::uint32_t slot, std::uint32_t count);
  std::string element_changes(std::uint32_t slot, const model::NetworkRules& from,
                              const model::NetworkRules& to) const;

  const std::string name_;
  const SlotRange range_;
  const std::uint16_t egress_port_;
  std::mutex mutex_;
  nft_ctx* context_ = nullptr;
  std::map<std::uint32_t, model::NetworkRules> rules_;  // of slots that are not plainly open
  std::map<std::uint32_t, std::uint32_t> labels_;       // of slots that have any
  std::string installed_;  // our table without counters and elements, as the kernel shows it
};

// Lists without those blocks that lie in another one, since the kernel's sets refuse overlaps.
std::vector<model::Cidr> without_nested(const std::vector<model::Cidr>& blocks);

}  // namespace atl::runner
