// SPDX-License-Identifier: Apache-2.0
#include "net/own_address.h"

#include <netinet/in.h>

#include <cstring>

#include "net/socket.h"

namespace atl::net {
namespace {
// Any port: connecting a datagram socket sends nothing.
constexpr std::uint16_t kPort = 9;

bool same_address(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in&>(a).sin_addr,
                       &reinterpret_cast<const sockaddr_in&>(b).sin_addr, sizeof(in_addr)) == 0;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}
}  // namespace

// KERNEL: towards one of its own addresses the kernel chooses that address itself as the source (the routes
// of table `local` carry it as their preferred source, ip-route(8)); towards others it never does.
bool is_own_address(const std::string& address) {
  auto to = to_socket_address({address, kPort});
  if (!to.ok()) return true;
  sys::Fd fd(socket(to->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return true;
  if (connect(fd.get(), to->get(), to->length) != 0) return false;  // no route at all
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&from), &size) != 0) return true;
  return same_address(from, to->storage);
}

}  // namespace atl::net
