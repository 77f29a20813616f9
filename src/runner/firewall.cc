// SPDX-License-Identifier: Apache-2.0
#include "runner/firewall.h"

#include <nftables/libnftables.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "model/guest_boot.h"
#include "runner/names.h"
#include "runner/nft.h"
#include "runner/special_ranges.h"
#include "sys/files.h"

namespace atl::runner {
namespace {

constexpr int kFlowsPerSlot = 4096;
constexpr int kNewFlowsPerSecond = 500;
constexpr int kNewFlowsBurst = 1000;
constexpr int kToldPerSecond = 100;  // refusals that are answered by ICMP, of each slot
constexpr std::string_view kAliases =
    "{ 100.80.0.0/12, 100.96.0.0/16 }";  // of alias_address(), label_alias()
constexpr std::string_view kLabelAliases = "100.96.0.0/16";

// Priorities: before connection tracking, and just before the host's own filter chains. An accept here
// does not overrule a drop there: each base chain has its say. `early` and `home` rewrite addresses without
// connection tracking, before and after it, so that all else sees one address per sandbox. An ICMP error that
// comes back still quotes that address, and means nothing inside: so the largest TCP segment is set from the
// route.
//
// KERNEL: connection tracking puts fragments together (priority -400) before chains at `raw` (-300), by
// addresses and number alone, so that pieces of two sandboxes with one address would become one packet.
// Hence `early` stands before it (NF_IP_PRI_RAW_BEFORE_DEFRAG).
//
// To the host's ends of links only answers go out as they are, since the host's own connections to sandboxes
// lead to the address inside. No route leads back to that address: what the host said to it would leave by
// the default route, with what it quotes. So all that may be refused with an answer has its alias, and what
// has not is dropped.
//
// Whatever has another source than the address inside was sent by a process with a label, by the sandbox's
// own table (labels.cc), or is forged. TCP and DNS of such go to the gateway; no datagram of theirs is
// forwarded, since the kernel knows no rules about labels.
constexpr std::string_view kChains = R"(
  chain early {{
    type filter hook prerouting priority raw - 150; policy accept;
    iifname != @slots return
    meta nfproto != ipv4 drop
    ip saddr != {inside} goto labelled
    ct original zone set iifname map @zones
    ip daddr {hosts} tcp flags & (syn | ack) != syn return
    ip saddr set iifname map @aliases
  }}
  chain labelled {{
    ct original zone set iifname map @zones ip saddr set iifname . ip saddr map @labels return
    counter name spoofed drop
  }}
  chain to_host {{
    type filter hook input priority filter - 10; policy accept;
    iifname != @slots goto strangers
    ct direction reply ct state established accept
    ip saddr {inside} drop
{redirected}    goto refuse
  }}
  chain strangers {{
{stranger_rules}  }}
  chain through {{
    type filter hook forward priority filter - 10; policy accept;
    tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu
    iifname @slots goto from_slot
    oifname @slots goto to_slot
  }}
  chain from_slot {{
    oifname @slots goto refuse
    ip daddr @special goto refuse
    fib daddr type != unicast goto refuse
    ct state invalid drop
    ip saddr {labels} goto refuse
{bounds}{judgement}    goto refuse
  }}
  chain to_slot {{
    ct direction reply ct state established,related accept
    drop
  }}
  chain refuse {{
    counter name refused
    meta l4proto tcp reject with tcp reset
    update @told {{ iifname limit rate {told}/second burst {told} packets }} goto told
    drop
  }}
  chain told {{
    reject with icmpx admin-prohibited
    drop
  }}
  chain leave {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {aliases} oifname != @slots masquerade
  }}
  chain home {{
    type filter hook postrouting priority srcnat + 10; policy accept;
    oifname @slots ip daddr {aliases} ip daddr set {inside}
  }}
)";

// Each slot's share of flows: many, but not all.
constexpr std::string_view kBounds = R"(
    ct state new update @rate {{ iifname limit rate over {rate}/second burst {burst} packets }} goto refuse
    ct state new add @flows {{ iifname ct count over {flows} }} goto refuse
)";

// Without a gateway: address rules decide here.
constexpr std::string_view kByAddress = R"(    iifname . ip daddr @allow accept
    iifname . ip daddr @deny goto refuse
    iifname @open accept
)";

// With one: TCP and DNS go to its port, whatever they are addressed to, and what is not redirected there does
// not reach it. Nothing else leaves, whatever address rules a slot still has of a time without a gateway:
// they are one author's word, and the gateway judges those of all.
constexpr std::string_view kDivert = R"(
  chain divert {{
    type nat hook prerouting priority dstnat - 5; policy accept;
    iifname != @slots return
    ip daddr {hosts} return
    meta l4proto tcp redirect to :{port}
    udp dport 53 redirect to :{port}
  }}
)";
constexpr std::string_view kRedirected =
    "    ct status dnat meta l4proto {{ tcp, udp }} th dport {port} accept\n";
constexpr std::string_view kStrangers =
    "    ct direction original ct state new meta l4proto {{ tcp, udp }} th dport {port} drop\n";

bool plainly_open(const model::NetworkRules& rules) { return rules == model::NetworkRules{}; }

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::string elements(const std::vector<std::string>& parts) {
  return parts.empty() ? "" : fmt::format("elements = {{ {} }}", join(parts));
}

std::vector<std::string> keyed(std::uint32_t slot, const std::vector<model::Cidr>& blocks) {
  std::vector<std::string> out;
  for (const model::Cidr& block : without_nested(blocks)) {
    out.push_back(fmt::format("\"{}\" . {}", link_name(slot), model::format_cidr(block)));
  }
  return out;
}

// Of labels above `from` up to `to`.
std::vector<std::string> label_elements(std::uint32_t slot, std::uint32_t from, std::uint32_t to) {
  std::vector<std::string> out;
  for (std::uint32_t label = from + 1; label <= to; ++label) {
    out.push_back(fmt::format("\"{}\" . {} : {}", link_name(slot),
                              model::format_cidr({label_address(label), 32}),
                              model::format_cidr({label_alias(slot, label), 32})));
  }
  return out;
}

std::string special_ranges() {
  std::vector<std::string> parts;
  for (const SpecialRange& range : kSpecialRanges) {
    parts.push_back(model::format_cidr({range.address, range.prefix}));
  }
  return join(parts);
}

// Forwarding is a switch of the whole host, so it is turned only when it is needed, and said.
Result<void> enable_forwarding() {
  constexpr char kSwitch[] = "/proc/sys/net/ipv4/ip_forward";
  TRY(std::string now, sys::read_file(kSwitch));
  if (now.starts_with("1")) return success();
  TRY_VOID(sys::write_file(kSwitch, "1"));
  log::info("enabled IPv4 forwarding on this host, so that sandboxes reach the internet",
            {{"sysctl", "net.ipv4.ip_forward"}});
  return success();
}

}  // namespace

std::vector<model::Cidr> without_nested(const std::vector<model::Cidr>& blocks) {
  auto word = [](const model::Cidr& block) {
    return static_cast<std::uint32_t>(block.address[0]) << 24 |
           static_cast<std::uint32_t>(block.address[1]) << 16 |
           static_cast<std::uint32_t>(block.address[2]) << 8 | block.address[3];
  };
  std::vector<model::Cidr> sorted = blocks;
  std::sort(sorted.begin(), sorted.end(), [&](const model::Cidr& a, const model::Cidr& b) {
    return std::pair(word(a), a.prefix) < std::pair(word(b), b.prefix);
  });
  std::vector<model::Cidr> out;
  for (const model::Cidr& block : sorted) {
    // Blocks are nested or disjoint, and a containing one sorts before those in it.
    if (!out.empty()) {
      std::uint64_t mask = out.back().prefix == 0 ? 0 : ~0u << (32 - out.back().prefix);
      if ((word(block) & mask) == word(out.back())) continue;
    }
    out.push_back(block);
  }
  return out;
}

Firewall::Firewall(std::string instance, SlotRange range, std::uint16_t egress_port)
    : name_(std::move(instance)), range_(range), egress_port_(egress_port) {}

Firewall::~Firewall() {
  if (context_ != nullptr) nft_ctx_free(context_);
}

Result<std::string> Firewall::run(const std::string& commands, bool terse) {
  if (context_ == nullptr) {
    TRY(context_, make_nft_context());
  }
  Result<std::string> done = run_nft(context_, commands, terse);
  if (done.ok()) return done;
  return std::move(done).error().with_hint(
      fmt::format("the kernel needs nf_tables with inet, fib, conntrack and NAT support, and \"{}\" "
                  "must not be a word of nft's language",
                  name_));
}

// Those of the range, and those of sandboxes that were started under another range: no link may be without
// rules.
std::set<std::uint32_t> Firewall::slots() const {
  std::set<std::uint32_t> out;
  for (std::uint32_t i = 0; i < range_.count; ++i) out.insert(range_.first + i);
  for (const auto& [slot, rules] : rules_) out.insert(slot);
  for (const auto& [slot, count] : labels_) out.insert(slot);
  return out;
}

std::string Firewall::table() const {
  std::vector<std::string> all, open, zones, aliases, allow, deny;
  for (std::uint32_t slot : slots()) {
    std::string link = fmt::format("\"{}\"", link_name(slot));
    all.push_back(link);
    zones.push_back(fmt::format("{} : {}", link, conntrack_zone(slot)));
    aliases.push_back(fmt::format("{} : {}", link, model::format_cidr({alias_address(slot), 32})));
    auto found = rules_.find(slot);
    if (found == rules_.end() || found->second.internet) open.push_back(link);
    if (found == rules_.end()) continue;
    for (std::string& part : keyed(slot, found->second.allow)) allow.push_back(std::move(part));
    for (std::string& part : keyed(slot, found->second.deny)) deny.push_back(std::move(part));
  }
  std::vector<std::string> labels;
  for (const auto& [slot, count] : labels_) {
    for (std::string& part : label_elements(slot, 0, count)) labels.push_back(std::move(part));
  }
  std::string text = fmt::format("table inet {0}\ndelete table inet {0}\ntable inet {0} {{\n", name_);
  text += "  counter refused {}\n  counter spoofed {}\n";
  text += fmt::format("  set slots {{ type ifname; {} }}\n", elements(all));
  text += fmt::format("  set open {{ type ifname; {} }}\n", elements(open));
  text += fmt::format("  map zones {{ typeof iifname : ct zone; {} }}\n", elements(zones));
  text += fmt::format("  map aliases {{ typeof iifname : ip saddr; {} }}\n", elements(aliases));
  text += fmt::format("  map labels {{ typeof iifname . ip saddr : ip saddr; {} }}\n", elements(labels));
  text += fmt::format("  set special {{ type ipv4_addr; flags interval; elements = {{ {} }} }}\n",
                      special_ranges());
  text += fmt::format("  set allow {{ type ifname . ipv4_addr; flags interval; {} }}\n", elements(allow));
  text += fmt::format("  set deny {{ type ifname . ipv4_addr; flags interval; {} }}\n", elements(deny));
  text += fmt::format("  set rate {{ type ifname; size {}; flags dynamic; timeout 60s; }}\n", kMaxSlots);
  text += fmt::format("  set told {{ type ifname; size {}; flags dynamic; timeout 60s; }}\n", kMaxSlots);
  text += fmt::format("  set flows {{ type ifname; size {}; flags dynamic; }}\n", kMaxSlots);
  return text + chains() + "}\n";
}

std::string Firewall::chains() const {
  std::string bounds = fmt::format(kBounds, fmt::arg("rate", kNewFlowsPerSecond),
                                   fmt::arg("burst", kNewFlowsBurst), fmt::arg("flows", kFlowsPerSlot));
  bool gateway = egress_port_ != 0;
  std::string redirected = gateway ? bounds + fmt::format(kRedirected, fmt::arg("port", egress_port_)) : "";
  std::string strangers = gateway ? fmt::format(kStrangers, fmt::arg("port", egress_port_)) : "";
  std::string text = fmt::format(
      kChains, fmt::arg("inside", model::kGuestAddress), fmt::arg("hosts", kHostAddresses),
      fmt::arg("aliases", kAliases), fmt::arg("labels", kLabelAliases), fmt::arg("bounds", bounds),
      fmt::arg("told", kToldPerSecond), fmt::arg("judgement", gateway ? "" : kByAddress),
      fmt::arg("redirected", redirected), fmt::arg("stranger_rules", strangers));
  if (!gateway) return text;
  return text + fmt::format(kDivert, fmt::arg("hosts", kHostAddresses), fmt::arg("port", egress_port_));
}

Result<void> Firewall::install_locked() {
  Result<std::string> done = run(table());
  if (!done.ok()) return std::move(done).error();
  TRY(installed_, run(fmt::format("list table inet {}", name_), true));
  return success();
}

Result<void> Firewall::install(std::map<std::uint32_t, model::NetworkRules> rules,
                               std::map<std::uint32_t, std::uint32_t> labels) {
  std::lock_guard lock(mutex_);
  rules_ = std::move(rules);
  labels_ = std::move(labels);
  return install_locked();
}

std::string Firewall::element_changes(std::uint32_t slot, const model::NetworkRules& from,
                                      const model::NetworkRules& to) const {
  std::string out;
  auto change = [&](const char* verb, const char* set, const std::vector<std::string>& parts) {
    if (!parts.empty()) out += fmt::format("{} element inet {} {} {{ {} }}\n", verb, name_, set, join(parts));
  };
  std::vector<std::string> link = {fmt::format("\"{}\"", link_name(slot))};
  // What closes comes before what opens; the kernel applies all or nothing anyway.
  if (from.internet && !to.internet) change("delete", "open", link);
  change("delete", "allow", keyed(slot, from.allow));
  change("delete", "deny", keyed(slot, from.deny));
  change("add", "deny", keyed(slot, to.deny));
  change("add", "allow", keyed(slot, to.allow));
  if (!from.internet && to.internet) change("add", "open", link);
  return out;
}

Result<void> Firewall::apply(std::uint32_t slot, const model::NetworkRules& rules) {
  std::lock_guard lock(mutex_);
  if (rules.internet || !rules.allow.empty()) TRY_VOID(enable_forwarding());
  return change_locked(slot, rules);
}

Result<void> Firewall::apply_labels(std::uint32_t slot, std::uint32_t count) {
  std::lock_guard lock(mutex_);
  return change_labels_locked(slot, count);
}

Result<void> Firewall::change_labels_locked(std::uint32_t slot, std::uint32_t count) {
  auto found = labels_.find(slot);
  std::uint32_t now = found == labels_.end() ? 0 : found->second;
  if (now == count) return success();
  const char* verb = count > now ? "add" : "delete";
  std::vector<std::string> parts = label_elements(slot, std::min(now, count), std::max(now, count));
  Result<std::string> done =
      run(fmt::format("{} element inet {} labels {{ {} }}\n", verb, name_, join(parts)));
  if (!done.ok()) return std::move(done).error();
  labels_[slot] = count;
  if (count == 0) labels_.erase(slot);
  return success();
}

Result<void> Firewall::reset(std::uint32_t slot) {
  std::lock_guard lock(mutex_);
  TRY_VOID(change_labels_locked(slot, 0));
  return change_locked(slot, {});
}

Result<void> Firewall::change_locked(std::uint32_t slot, const model::NetworkRules& rules) {
  auto found = rules_.find(slot);
  model::NetworkRules now = found == rules_.end() ? model::NetworkRules{} : found->second;
  if (now == rules) return success();
  Result<std::string> done = run(element_changes(slot, now, rules));
  if (!done.ok()) return std::move(done).error();
  if (plainly_open(rules) && range_.contains(slot))
    rules_.erase(slot);
  else
    rules_[slot] = rules;
  return success();
}

Result<bool> Firewall::repair() {
  std::lock_guard lock(mutex_);
  Result<std::string> now = run(fmt::format("list table inet {}", name_), true);
  if (now.ok() && *now == installed_) return false;
  TRY_VOID(install_locked());
  return true;
}

void Firewall::remove() {
  std::lock_guard lock(mutex_);
  static_cast<void>(run(fmt::format("table inet {0}\ndelete table inet {0}\n", name_)));
}

}  // namespace atl::runner
