// SPDX-License-Identifier: Apache-2.0
#include "guest/machine/network.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "model/machine.h"
#include "sys/fd.h"
#include "sys/files.h"

namespace atl::guest {
namespace {

constexpr char kLink[] = "eth0";

sockaddr address_of(const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, text, &address.sin_addr);
  sockaddr out{};
  std::memcpy(&out, &address, sizeof out);
  return out;
}

ifreq request_for(const char* link) {
  ifreq request{};
  std::strncpy(request.ifr_name, link, sizeof request.ifr_name - 1);
  return request;
}

Result<void> change(int socket, unsigned long what, void* request, const char* doing) {
  if (::ioctl(socket, what, request) != 0) return Error::from_errno(errno, doing);
  return success();
}

Result<void> set_up(int socket, const char* link) {
  ifreq request = request_for(link);
  TRY_VOID(change(socket, SIOCGIFFLAGS, &request, "look at a link"));
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  return change(socket, SIOCSIFFLAGS, &request, "bring a link up");
}

Result<void> add_route(int socket, const char* destination, const char* mask, const char* gateway) {
  std::string link = kLink;
  rtentry route{};
  route.rt_dst = address_of(destination);
  route.rt_genmask = address_of(mask);
  route.rt_flags = RTF_UP;
  if (gateway != nullptr) {
    route.rt_gateway = address_of(gateway);
    route.rt_flags |= RTF_GATEWAY;
  }
  route.rt_dev = link.data();
  return change(socket, SIOCADDRT, &route, "add a route");
}

// The host's end of the cable answers no question about addresses.
Result<void> add_gateway(int socket) {
  arpreq entry{};
  entry.arp_pa = address_of(model::kGatewayAddress);
  entry.arp_ha.sa_family = ARPHRD_ETHER;
  std::memcpy(entry.arp_ha.sa_data, model::kMachineGatewayMac, sizeof model::kMachineGatewayMac);
  entry.arp_flags = ATF_COM | ATF_PERM;
  std::strncpy(entry.arp_dev, kLink, sizeof entry.arp_dev - 1);
  return change(socket, SIOCSARP, &entry, "add the gateway");
}

}  // namespace

Result<void> bring_up_network() {
  // As in the other tiers: IPv6 stays on lo, and everyone may serve low ports.
  TRY_VOID(sys::write_file("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1"));
  TRY_VOID(sys::write_file("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"));
  sys::Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return Error::from_errno(errno, "make a socket");
  TRY_VOID(set_up(fd.get(), "lo"));
  ifreq request = request_for(kLink);
  request.ifr_addr = address_of(model::kGuestAddress);
  TRY_VOID(change(fd.get(), SIOCSIFADDR, &request, "set the address"));
  request.ifr_netmask = address_of("255.255.255.255");
  TRY_VOID(change(fd.get(), SIOCSIFNETMASK, &request, "set the mask"));
  TRY_VOID(set_up(fd.get(), kLink));
  TRY_VOID(add_route(fd.get(), model::kGatewayAddress, "255.255.255.255", nullptr));
  TRY_VOID(add_route(fd.get(), "0.0.0.0", "0.0.0.0", model::kGatewayAddress));
  return add_gateway(fd.get());
}

}  // namespace atl::guest
