// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>

#include "net/socket_stream.h"

namespace atl::net {
namespace {

// SO_ORIGINAL_DST of linux/netfilter_ipv4.h, whose other contents clash with those of netinet/in.h.
constexpr int kOriginalDestination = 80;

bool same(const sockaddr_in& a, const sockaddr_in& b) {
  return a.sin_addr.s_addr == b.sin_addr.s_addr && a.sin_port == b.sin_port;
}

}  // namespace

Result<Endpoint> original_destination(Stream& stream) {
  auto* socket = dynamic_cast<SocketStream*>(&stream);
  if (socket == nullptr) return make_error(Code::kInvalid, "{} is no TCP connection", stream.peer());
  sockaddr_in own{}, meant{};
  socklen_t size = sizeof meant;
  if (getsockopt(socket->descriptor(), SOL_IP, kOriginalDestination, &meant, &size) != 0)
    return Error::from_errno(errno, "original destination of " + stream.peer()).with_code(Code::kInvalid);
  size = sizeof own;
  if (getsockname(socket->descriptor(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return Error::from_errno(errno, "own address of the connection of " + stream.peer());
  if (same(own, meant))
    return make_error(Code::kInvalid, "the connection of {} was not redirected", stream.peer());
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &meant.sin_addr, text, sizeof text);
  return Endpoint{text, ntohs(meant.sin_port)};
}

}  // namespace atl::net
