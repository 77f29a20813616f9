// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/link.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "model/machine.h"
#include "runner/names.h"
#include "runner/netns.h"
#include "sys/files.h"
#include "sys/netlink/netlink.h"

namespace atl::runner::microvm {
namespace {

using sys::Fd;

constexpr char kCable[] = "machine";

sys::Mac mac_of(const std::uint8_t (&bytes)[6]) {
  sys::Mac mac{};
  std::copy(std::begin(bytes), std::end(bytes), mac.begin());
  return mac;
}

// KERNEL: a tap device belongs to the network namespace of the thread that opens /dev/net/tun, and goes with
// the last descriptor of it (Documentation/networking/tuntap.rst).
Result<Fd> make_tap() {
  TRY(Fd tap, sys::open_file("/dev/net/tun", O_RDWR));
  ifreq request{};
  std::strncpy(request.ifr_name, kCable, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(tap.get(), TUNSETIFF, &request) != 0) return Error::from_errno(errno, "make a tap device");
  Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, model::kMachineGatewayMac, sizeof model::kMachineGatewayMac);
  if (!socket || ::ioctl(socket.get(), SIOCSIFHWADDR, &request) != 0)
    return Error::from_errno(errno, "name a tap device");
  return tap;
}

// Seen by the calling thread: /proc/sys/net shows the namespace of whoever looks.
Result<void> set_router_sysctls() {
  const std::string conf = "/proc/sys/net/ipv4/conf/";
  TRY_VOID(sys::write_file("/proc/sys/net/ipv4/ip_forward", "1"));
  // A packet from the machine must come from the sandbox's address.
  TRY_VOID(sys::write_file(conf + kCable + "/rp_filter", "1"));
  for (const char* name : {"accept_redirects", "send_redirects"}) {
    for (const char* link : {"eth0", kCable})
      TRY_VOID(sys::write_file(fmt::format("{}{}/{}", conf, link, name), "0"));
  }
  return success();
}

// No address of the namespace's own, and no question to anybody about one: all neighbours are known.
Result<void> route(std::uint32_t slot) {
  TRY(sys::Netlink inside, sys::Netlink::open_route());
  TRY(std::uint32_t eth, inside.link_index("eth0"));
  TRY(std::uint32_t cable, inside.link_index(kCable));
  // KERNEL: with the last address of a link go its routes (net/ipv4/fib_frontend.c, fib_del_ifaddr).
  TRY_VOID(inside.remove_address(eth, kInsideAddress, 32));
  TRY_VOID(inside.set_up(cable));
  TRY_VOID(inside.add_route(eth, kGatewayAddress, 32, std::nullopt));
  TRY_VOID(inside.add_route(eth, {}, 0, kGatewayAddress));
  TRY_VOID(inside.add_route(cable, kInsideAddress, 32, std::nullopt));
  TRY_VOID(inside.add_neighbour(eth, kGatewayAddress, host_mac(slot)));
  return inside.add_neighbour(cable, kInsideAddress, mac_of(model::kMachineMac));
}

}  // namespace

Result<Fd> make_cable(const Slot& slot, int home) {
  TRY(sys::Netlink host, sys::Netlink::open_route());
  TRY(std::uint32_t link, host.link_index(link_name(slot.number)));
  TRY_VOID(host.add_neighbour(link, kInsideAddress, kInsideMac));
  NetnsVisit visit(home);
  if (::setns(slot.netns.get(), CLONE_NEWNET) != 0) return Error::from_errno(errno, "enter the slot");
  TRY(Fd tap, make_tap());
  TRY_VOID(set_router_sysctls());
  TRY_VOID(route(slot.number));
  return tap;
}

}  // namespace atl::runner::microvm
