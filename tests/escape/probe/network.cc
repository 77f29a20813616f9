// SPDX-License-Identifier: Apache-2.0
//
// Packets and sockets that must not leave (K20, K28, N01, N02, N04, N05). Whether a connection arrived is
// seen by the harness's listeners; each probe sends its id and the nonce, so that they can tell who came.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "probe.h"

namespace atl::escape {
namespace {

constexpr int kWaitMs = 1200;

bool wait_for(long fd, short events) {
  pollfd wait{static_cast<int>(fd), events, 0};
  return ::poll(&wait, 1, kWaitMs) == 1;
}

// Connects without blocking, says who it is, and returns what came back.
Outcome talk(long fd, const sockaddr* where, socklen_t length, const Args& args, const char* id) {
  if (fd < 0) return blocked(errno, "socket");
  if (raw(SYS_connect, fd, where, length) < 0) {
    if (errno != EINPROGRESS) return blocked(errno, "connect");
    if (!wait_for(fd, POLLOUT)) return blocked(ETIMEDOUT, "connect");
    int error = 0;
    socklen_t size = sizeof error;
    raw(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return blocked(error, "connect");
  }
  std::string hello = std::string("PROBE ") + id + " " + arg(args, "nonce") + "\n";
  raw(SYS_write, fd, hello.data(), hello.size());
  char answer[256] = {};
  long n = wait_for(fd, POLLIN) ? raw(SYS_read, fd, answer, sizeof answer - 1) : 0;
  return reached(std::string("connected ") + std::string(answer, static_cast<std::size_t>(n > 0 ? n : 0)));
}

Outcome tcp4(const std::string& address, int port, const Args& args, const char* id) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_aton(address.c_str(), &where.sin_addr) == 0) return blocked(EINVAL, "not an address");
  long fd = raw(SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return talk(fd, reinterpret_cast<sockaddr*>(&where), sizeof where, args, id);
}

Outcome tcp6(const std::string& address, int port, const Args& args, const char* id) {
  sockaddr_in6 where{};
  where.sin6_family = AF_INET6;
  where.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET6, address.c_str(), &where.sin6_addr) != 1) return blocked(EINVAL, "not an address");
  long fd = raw(SYS_socket, AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return talk(fd, reinterpret_cast<sockaddr*>(&where), sizeof where, args, id);
}

// A datagram gets no answer by itself; the harness's listener echoes it.
Outcome udp4(const std::string& address, int port, const Args& args, const char* id) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_aton(address.c_str(), &where.sin_addr);
  long fd = raw(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  std::string hello = std::string("PROBE ") + id + " " + arg(args, "nonce");
  if (raw(SYS_sendto, fd, hello.data(), hello.size(), 0, &where, sizeof where) < 0)
    return blocked(errno, "send");
  char answer[256] = {};
  if (!wait_for(fd, POLLIN)) return blocked(ETIMEDOUT, "no echo");
  long n = raw(SYS_read, fd, answer, sizeof answer - 1);
  return n > 0 ? reached(answer) : blocked(errno, "refused");
}

Outcome abstract_socket(const std::string& name, const Args& args, const char* id) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path + 1, name.data(), name.size());
  long fd = raw(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return talk(fd, reinterpret_cast<sockaddr*>(&where), length, args, id);
}

Outcome path_socket(const std::string& path, const Args& args, const char* id) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strncpy(where.sun_path, path.c_str(), sizeof where.sun_path - 1);
  long fd = raw(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  Outcome stream = talk(fd, reinterpret_cast<sockaddr*>(&where), sizeof where, args, id);
  if (stream.reached || stream.error != EPROTOTYPE) return stream;
  fd = raw(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return talk(fd, reinterpret_cast<sockaddr*>(&where), sizeof where, args, id);
}

Outcome vsock_host(const Args& args) {
  sockaddr_vm where{};
  where.svm_family = AF_VSOCK;
  where.svm_cid = 1;  // VMADDR_CID_LOCAL: the same machine
  where.svm_port = static_cast<unsigned>(int_arg(args, "vsock_port"));
  long fd = raw(SYS_socket, AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return talk(fd, reinterpret_cast<sockaddr*>(&where), sizeof where, args, "K28.vsock");
}

// --- raw packets
// ----------------------------------------------------------------------------------------------

Outcome raw_icmp(const Args& args) {
  long fd = raw(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP);
  if (fd < 0) return blocked(errno, "socket");
  sockaddr_in where{};
  where.sin_family = AF_INET;
  ::inet_aton(arg(args, "world").c_str(), &where.sin_addr);
  const unsigned char echo[8] = {8, 0, 0xf7, 0xff, 0, 0, 0, 0};
  return judge(raw(SYS_sendto, fd, echo, sizeof echo, 0, &where, sizeof where));
}

// A datagram to the world with a source that is not ours. Seen by the harness's sink, or not.
Outcome spoofed_udp(const Args& args) {
  long fd = raw(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_RAW);
  if (fd < 0) return blocked(errno, "socket");
  struct {
    iphdr ip;
    udphdr udp;
    char text[64];
  } packet{};
  std::string hello = "PROBE N05.spoofed_udp " + arg(args, "nonce");
  std::memcpy(packet.text, hello.data(), hello.size());
  packet.ip.version = 4;
  packet.ip.ihl = 5;
  packet.ip.ttl = 64;
  packet.ip.protocol = IPPROTO_UDP;
  packet.ip.saddr = ::inet_addr("198.51.100.77");
  packet.ip.daddr = ::inet_addr(arg(args, "world").c_str());
  packet.udp.source = htons(4444);
  packet.udp.dest = htons(static_cast<std::uint16_t>(int_arg(args, "world_port")));
  packet.udp.len = htons(sizeof packet.udp + sizeof packet.text);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = packet.ip.daddr;
  return judge(raw(SYS_sendto, fd, &packet, sizeof packet, 0, &where, sizeof where));
}

Outcome bind_foreign_source(const Args& args) {
  long fd = raw(SYS_socket, AF_INET, SOCK_DGRAM, 0);
  int one = 1;
  if (raw(SYS_setsockopt, fd, IPPROTO_IP, 19 /* IP_TRANSPARENT */, &one, sizeof one) < 0)
    return blocked(errno, "transparent");
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = ::inet_addr("198.51.100.78");
  if (raw(SYS_bind, fd, &from, sizeof from) < 0) return blocked(errno, "bind");
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(int_arg(args, "world_port")));
  where.sin_addr.s_addr = ::inet_addr(arg(args, "world").c_str());
  std::string hello = "PROBE N05.transparent " + arg(args, "nonce");
  return judge(raw(SYS_sendto, fd, hello.data(), hello.size(), 0, &where, sizeof where));
}

// --- changing the network
// -------------------------------------------------------------------------------------

Outcome change_mac(const Args&) {
  long fd = raw(SYS_socket, AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "eth0");
  if (raw(SYS_ioctl, fd, SIOCGIFHWADDR, &request) < 0) {
    std::strcpy(request.ifr_name, "probe0");
    raw(SYS_ioctl, fd, SIOCGIFHWADDR, &request);
  }
  request.ifr_hwaddr.sa_data[5] = static_cast<char>(request.ifr_hwaddr.sa_data[5] ^ 1);
  return judge(raw(SYS_ioctl, fd, SIOCSIFHWADDR, &request), {EBUSY, ENODEV});
}

// One rtnetlink request; the kernel answers each with an error message whose number is 0 on success.
Outcome netlink(void* request, std::size_t length) {
  long fd = raw(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return blocked(errno, "socket");
  if (raw(SYS_sendto, fd, request, length, 0, nullptr, 0) < 0) return blocked(errno, "send");
  struct {
    nlmsghdr header;
    nlmsgerr error;
    char rest[1024];
  } answer{};
  if (!wait_for(fd, POLLIN) || raw(SYS_read, fd, &answer, sizeof answer) <= 0)
    return blocked(errno, "no answer");
  int error = -answer.error.error;
  return error == 0            ? reached()
         : error == EOPNOTSUPP ? Outcome{true, error, "past the permission check"}
                               : blocked(error);
}

Outcome add_route(const Args&) {
  struct {
    nlmsghdr header;
    rtmsg route;
    rtattr attribute;
    std::uint32_t address;
    rtattr out;
    std::uint32_t device;
  } request{};
  request.header = {sizeof request, RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0};
  request.route = {AF_INET, 32, 0, 0, RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_LINK, RTN_UNICAST, 0};
  request.attribute = {8, RTA_DST};
  request.address = ::inet_addr("198.51.100.99");
  request.out = {8, RTA_OIF};
  request.device = 1;
  return netlink(&request, sizeof request);
}

Outcome add_link(const Args&) {
  struct {
    nlmsghdr header;
    ifinfomsg link;
    rtattr info;
    rtattr kind;
    char name[8];
  } request{};
  request.header = {sizeof request, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, 1, 0};
  request.info = {sizeof(rtattr) * 2 + 8, IFLA_LINKINFO};
  request.kind = {sizeof(rtattr) + 7, IFLA_INFO_KIND};
  std::memcpy(request.name, "bridge", 7);
  return netlink(&request, sizeof request);
}

#define TCP_PROBE(id, address, key)                                                                         \
  Probe {                                                                                                   \
    id, "connect to " address, [](const Args& args) { return tcp4(address, int_arg(args, key), args, id); } \
  }
#define TCP6_PROBE(id, address, key)                                                                        \
  Probe {                                                                                                   \
    id, "connect to " address, [](const Args& args) { return tcp6(address, int_arg(args, key), args, id); } \
  }
// The address comes from the harness.
#define TCP_ARG_PROBE(id, key, port)                                                         \
  Probe {                                                                                    \
    id, "connect to the " key,                                                               \
        [](const Args& args) { return tcp4(arg(args, key), int_arg(args, port), args, id); } \
  }

constexpr Probe kProbes[] = {
    {"K20.raw_icmp", "send an ICMP echo by a raw socket", raw_icmp},
    {"K20.ping_socket", "open a ping socket",
     [](const Args&) { return judge(raw(SYS_socket, AF_INET, SOCK_DGRAM, IPPROTO_ICMP)); }},

    {"K28.host_abstract", "connect to an abstract socket of the host",
     [](const Args& args) { return abstract_socket(arg(args, "host_abstract"), args, "K28.host_abstract"); }},
    {"K28.neighbour_abstract", "connect to an abstract socket of a neighbour",
     [](const Args& args) {
       return abstract_socket(arg(args, "neighbour_abstract"), args, "K28.neighbour_abstract");
     }},
    {"K28.host_path", "connect to a socket of the host by path",
     [](const Args& args) { return path_socket(arg(args, "host_socket"), args, "K28.host_path"); }},
    {"K28.runner_path", "connect to the runner's socket by path",
     [](const Args& args) { return path_socket(arg(args, "runner_socket"), args, "K28.runner_path"); }},
    {"K28.vsock", "connect to a vsock of the host", vsock_host},

    TCP_PROBE("N01.metadata", "169.254.169.254", "metadata_port"),
    TCP_PROBE("N01.metadata_ecs", "169.254.170.2", "metadata_port"),
    TCP_PROBE("N01.metadata_alibaba", "100.100.100.200", "metadata_port"),
    TCP_PROBE("N01.metadata_decimal", "2852039166", "metadata_port"),
    TCP_PROBE("N01.metadata_hex", "0xa9fea9fe", "metadata_port"),
    TCP_PROBE("N01.metadata_octal", "0251.0376.0251.0376", "metadata_port"),
    TCP6_PROBE("N01.metadata_v6", "fd00:ec2::254", "metadata_port"),
    TCP6_PROBE("N01.metadata_mapped", "::ffff:169.254.169.254", "metadata_port"),
    {"N01.metadata_udp", "send a datagram to 169.254.169.254",
     [](const Args& args) {
       return udp4("169.254.169.254", int_arg(args, "metadata_port"), args, "N01.metadata_udp");
     }},
    TCP_PROBE("N01.private_10", "10.99.0.2", "metadata_port"),
    TCP_PROBE("N01.private_172", "172.16.99.2", "metadata_port"),
    TCP_PROBE("N01.private_192", "192.168.99.2", "metadata_port"),
    TCP_PROBE("N01.carrier_grade", "100.64.99.2", "metadata_port"),
    TCP_PROBE("N01.benchmark", "198.18.99.2", "metadata_port"),
    TCP6_PROBE("N01.public_v6", "2001:db8:99::2", "metadata_port"),

    TCP_PROBE("N02.loopback", "127.0.0.1", "host_port"),
    TCP_PROBE("N02.loopback_other", "127.9.9.9", "host_port"),
    TCP_PROBE("N02.any", "0.0.0.0", "host_port"),
    TCP6_PROBE("N02.loopback_v6", "::1", "host_port"),
    TCP6_PROBE("N02.any_v6", "::", "host_port"),
    TCP6_PROBE("N02.mapped", "::ffff:127.0.0.1", "host_port"),
    TCP_PROBE("N02.gateway", "169.254.0.22", "host_port"),
    TCP_ARG_PROBE("N02.slot_address", "slot_address", "host_port"),
    TCP_ARG_PROBE("N02.neighbour_slot", "neighbour_slot_address", "host_port"),
    TCP_ARG_PROBE("N02.neighbour_agent", "neighbour_slot_address", "agent_port_number"),
    TCP_ARG_PROBE("N02.host_address", "host_address", "host_port"),
    TCP_ARG_PROBE("N02.api", "host_address", "api_port"),
    TCP_PROBE("N02.gateway_api", "169.254.0.22", "api_port"),
    {"N02.gateway_udp", "send a datagram to the gateway",
     [](const Args& args) {
       return udp4("169.254.0.22", int_arg(args, "host_port"), args, "N02.gateway_udp");
     }},
    {"N02.host_udp", "send a datagram to the host's address",
     [](const Args& args) {
       return udp4(arg(args, "host_address"), int_arg(args, "host_port"), args, "N02.host_udp");
     }},

    {"N04.change_mac", "change the link's hardware address", change_mac},
    {"N04.add_route", "add a route", add_route},
    {"N04.add_link", "add a bridge", add_link},
    {"N05.spoofed_udp", "send a datagram with a forged source", spoofed_udp},
    {"N05.transparent", "bind a foreign source address", bind_foreign_source},

    // Not an attack: the way out that policy `open` allows, so that the silence of the others means
    // something.
    TCP_ARG_PROBE("N00.world", "world", "world_port"),
};

}  // namespace

std::span<const Probe> network_probes() { return kProbes; }

}  // namespace atl::escape
