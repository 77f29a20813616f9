// SPDX-License-Identifier: Apache-2.0
#include "runner/labels.h"

#include <fcntl.h>
#include <nftables/libnftables.h>
#include <sched.h>

#include <cerrno>
#include <memory>

#include "base/fault.h"
#include "base/log.h"
#include "model/guest_boot.h"
#include "model/sandbox.h"
#include "runner/names.h"
#include "runner/netns.h"
#include "runner/nft.h"
#include "sys/files.h"
#include "sys/netlink/netlink.h"

namespace atl::runner {
namespace {

using sys::Fd;

constexpr std::uint8_t kLabelBlock = 28;  // 16 addresses: those of one slot

// KERNEL: a socket belongs, for ever, to the group in which it was made (net/core/sock.c, cgroup_sk_alloc),
// whoever has it now. What the kernel says without a socket has no group and no label: a refusal of what
// comes after the end of a connection. Nobody inside can send from an address that is not the sandbox's own;
// were there a way, it is shut here. Answers to the host's connections stay as they are, as in the host's
// table, to which the source is then a key (firewall.cc).
constexpr std::string_view kTable = R"(table ip labels
delete table ip labels
table ip labels {{
  chain out {{
    type filter hook output priority raw - 150; policy accept;
    oifname != "eth0" return
    ip saddr != {inside} drop
    ip daddr {hosts} tcp flags & (syn | ack) != syn return
    ip saddr set socket cgroupv2 level {level} map {{ {groups} }}
  }}
}}
)";

Result<std::string> table_for(const sys::Cgroups& cgroups, const std::string& sandbox, std::uint32_t count) {
  std::string groups;
  std::uint32_t level = 0;
  for (std::uint32_t label = 1; label <= count; ++label) {
    TRY(sys::Cgroups::Place place, cgroups.place_of(sandbox, label_part(label)));
    level = place.level;
    groups += fmt::format("{}\"{}\" : {}", groups.empty() ? "" : ", ", place.path,
                          model::format_cidr({label_address(label), 32}));
  }
  return fmt::format(kTable, fmt::arg("inside", model::kGuestAddress), fmt::arg("hosts", kHostAddresses),
                     fmt::arg("level", level), fmt::arg("groups", groups));
}

Result<void> put_table(int pidfd, const std::string& table) {
  TRY(Fd home, sys::open_file("/proc/thread-self/ns/net", O_RDONLY));
  NetnsVisit visit(home.get());
  if (::setns(pidfd, CLONE_NEWNET) != 0) return Error::from_errno(errno, "enter the sandbox's network");
  TRY(nft_ctx * made, make_nft_context());
  std::unique_ptr<nft_ctx, void (*)(nft_ctx*)> context(made, nft_ctx_free);
  Result<std::string> done = run_nft(context.get(), table);
  if (done.ok()) return success();
  return std::move(done)
      .error()
      .with_code(Code::kUnsupported)
      .with_word("label_unsupported")
      .with_hint("'atoll doctor' shows whether this host can give labels to commands (process_labels)");
}

// All lead to the one neighbour behind the link. They go away with it.
Result<void> add_way_back(std::uint32_t slot) {
  TRY(sys::Netlink host, sys::Netlink::open_route());
  TRY(std::uint32_t link, host.link_index(link_name(slot)));
  for (std::uint32_t label = 1; label <= model::kMaxLabels; ++label)
    TRY_VOID(host.add_neighbour(link, label_alias(slot, label), kInsideMac));
  Result<void> route = host.add_route(link, label_alias(slot, 0), kLabelBlock, std::nullopt);
  bool there = !route.ok() && route.error().sys_errno() == EEXIST;
  return there ? success() : route;
}

}  // namespace

std::string label_part(std::uint32_t label) { return fmt::format("label-{}", label); }

Result<void> make_labels(const sys::Cgroups& cgroups, const std::string& sandbox, int pidfd,
                         std::uint32_t slot, std::uint32_t count) {
  for (std::uint32_t label = 1; label <= count; ++label)
    TRY_VOID(cgroups.create_part(sandbox, label_part(label), uid_base(slot)));
  FAULT("runner.labels.after_groups");
  TRY(std::string table, table_for(cgroups, sandbox, count));
  TRY_VOID(put_table(pidfd, table));
  FAULT("runner.labels.after_table");
  return add_way_back(slot);
}

void forget_labels(std::uint32_t slot, std::uint32_t count) {
  for (std::uint32_t label = 1; label <= count; ++label) {
    Result<void> done = sys::forget_flows(label_alias(slot, label));
    if (!done.ok())
      log::warn("connections of a label stay tracked", {{"slot", slot}, {"error", done.error().message()}});
  }
}

}  // namespace atl::runner
