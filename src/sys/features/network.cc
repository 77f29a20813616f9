// SPDX-License-Identifier: Apache-2.0
//
// Links and packet rules, in a network namespace of the probe's own.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <nftables/libnftables.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "sys/features/probes.h"
#include "sys/files.h"
#include "sys/netlink/netlink.h"

namespace atl::sys::probe {
namespace {

constexpr int kLargestErrno = 134;

// What libnftables says of a refusal is a text, which ends with that of the errno.
int number_in(std::string_view text) {
  for (int number = 1; number < kLargestErrno; ++number) {
    if (text.find(::strerror(number)) != std::string_view::npos) return number;
  }
  return EPROTONOSUPPORT;
}

int apply(const char* rules) {
  if (::unshare(CLONE_NEWNET) != 0) return errno;
  return load_rules(rules);
}

}  // namespace

// KERNEL: a module that a rule needs is loaded by the first rule that names it.
int load_rules(const std::string& rules) {
  nft_ctx* context = nft_ctx_new(NFT_CTX_DEFAULT);
  if (context == nullptr) return EPROTONOSUPPORT;
  nft_ctx_buffer_error(context);
  nft_ctx_buffer_output(context);
  int number =
      nft_run_cmd_from_buffer(context, rules.c_str()) == 0 ? 0 : number_in(nft_ctx_get_error_buffer(context));
  nft_ctx_free(context);
  return number;
}

int nftables() {
  return apply(
      "table inet probe { set links { type ifname; elements = { \"probe\" }; }\n"
      "chain c { type filter hook forward priority filter; iifname @links drop; }; }");
}

int conntrack() {
  return apply(
      "table inet probe { chain early { type filter hook prerouting priority raw; ct original zone set 1; }\n"
      "chain c { type filter hook forward priority filter; ct state established accept; }; }");
}

int nat() {
  return apply("table inet probe { chain c { type nat hook postrouting priority srcnat; masquerade; }; }");
}

int veth() {
  if (::unshare(CLONE_NEWNET) != 0) return errno;
  auto own = open_file("/proc/self/ns/net", O_RDONLY);
  if (!own.ok()) return number_of(own);
  auto netlink = Netlink::open_route();
  if (!netlink.ok()) return number_of(netlink);
  return number_of(
      netlink->create_veth("probe0", {2, 0, 0, 0, 0, 1}, "probe1", {2, 0, 0, 0, 0, 2}, own->get()));
}

int tun() {
  if (::unshare(CLONE_NEWNET) != 0) return errno;
  auto device = open_file("/dev/net/tun", O_RDWR);
  if (!device.ok()) return number_of(device);
  ifreq request{};
  std::strncpy(request.ifr_name, "probe%d", sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  return outcome(::ioctl(device->get(), TUNSETIFF, &request));
}

}  // namespace atl::sys::probe
