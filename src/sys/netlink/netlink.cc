// SPDX-License-Identifier: Apache-2.0
#include "sys/netlink/netlink.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

namespace atl::sys {
namespace {

constexpr std::size_t kBuffer = 8192;  // what libmnl recommends as a minimum (MNL_SOCKET_BUFFER_SIZE)

Result<Fd> open_socket(int family) {
  Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family));
  if (!fd) return Error::from_errno(errno, "open a netlink socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Error::from_errno(errno, "bind a netlink socket");
  }
  return fd;
}

nlmsghdr* start(char* buffer, std::uint16_t type, std::uint16_t flags) {
  nlmsghdr* message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = type;
  message->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  return message;
}

template <class T>
T* extra(nlmsghdr* message) {
  return static_cast<T*>(mnl_nlmsg_put_extra_header(message, sizeof(T)));
}

template <class Visit>
void each_attribute(const void* begin, const char* tail, Visit visit) {
  auto* attribute = static_cast<const nlattr*>(begin);
  while (mnl_attr_ok(attribute, static_cast<int>(tail - reinterpret_cast<const char*>(attribute)))) {
    visit(attribute);
    attribute = mnl_attr_next(attribute);
  }
}

template <class Visit>
void each_attribute(const nlmsghdr* message, std::size_t offset, Visit visit) {
  each_attribute(mnl_nlmsg_get_payload_offset(message, offset),
                 static_cast<const char*>(mnl_nlmsg_get_payload_tail(message)), visit);
}

// Those inside of one.
template <class Visit>
void each_inner(const nlattr* outer, Visit visit) {
  auto* begin = static_cast<const char*>(mnl_attr_get_payload(outer));
  each_attribute(begin, begin + mnl_attr_get_payload_len(outer), visit);
}

struct Waiting {
  std::uint32_t sequence;
  mnl_cb_t callback;
  void* data;
};

// Sends and hands every answer to the callback, until the kernel's acknowledgement.
Result<void> exchange(int fd, nlmsghdr* message, const Waiting& waiting) {
  if (::send(fd, message, message->nlmsg_len, 0) < 0)
    return Error::from_errno(errno, "ask the kernel by netlink");
  alignas(nlmsghdr) char answer[kBuffer];
  for (;;) {
    ssize_t n = ::recv(fd, answer, sizeof answer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::from_errno(errno, "read a netlink answer");
    int state =
        mnl_cb_run(answer, static_cast<std::size_t>(n), waiting.sequence, 0, waiting.callback, waiting.data);
    if (state < 0) return Error::from_errno(errno, "netlink");
    if (state == MNL_CB_STOP) return success();
  }
}

void put_address(nlmsghdr* message, std::uint32_t link, Ipv4 address, std::uint8_t prefix) {
  auto* info = extra<ifaddrmsg>(message);
  info->ifa_family = AF_INET;
  info->ifa_prefixlen = prefix;
  info->ifa_scope = RT_SCOPE_UNIVERSE;
  info->ifa_index = link;
  mnl_attr_put(message, IFA_LOCAL, address.size(), address.data());
  mnl_attr_put(message, IFA_ADDRESS, address.size(), address.data());
}

nlmsghdr* start_conntrack(char* buffer, int type, std::uint16_t flags) {
  auto full_type = static_cast<std::uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | type);
  nlmsghdr* message = start(buffer, full_type, flags);
  auto* family = extra<nfgenmsg>(message);
  family->nfgen_family = AF_INET;
  family->version = 1;
  return message;
}

// Hands every tracked connection that was opened from `source` to waiting.callback.
Result<void> dump_flows(int fd, Ipv4 source, const Waiting& waiting) {
  constexpr std::uint32_t kCompareSource = 1;
  char buffer[kBuffer];
  nlmsghdr* message = start_conntrack(buffer, IPCTNL_MSG_CT_GET, NLM_F_DUMP);
  nlattr* tuple = mnl_attr_nest_start(message, CTA_TUPLE_ORIG);
  nlattr* addresses = mnl_attr_nest_start(message, CTA_TUPLE_IP);
  mnl_attr_put(message, CTA_IP_V4_SRC, source.size(), source.data());
  mnl_attr_nest_end(message, addresses);
  mnl_attr_nest_end(message, tuple);
  nlattr* filter = mnl_attr_nest_start(message, CTA_FILTER);
  mnl_attr_put_u32(message, CTA_FILTER_ORIG_FLAGS, kCompareSource);
  mnl_attr_put_u32(message, CTA_FILTER_REPLY_FLAGS, 0);
  mnl_attr_nest_end(message, filter);
  message->nlmsg_seq = waiting.sequence;
  return exchange(fd, message, waiting);
}

// Their original tuples, as the kernel writes them.
Result<std::vector<std::string>> flows_from(int fd, Ipv4 source, std::uint32_t sequence) {
  std::vector<std::string> tuples;
  auto collect = [](const nlmsghdr* answer, void* out) {
    each_attribute(answer, sizeof(nfgenmsg), [out](const nlattr* attribute) {
      if (mnl_attr_get_type(attribute) != CTA_TUPLE_ORIG) return;
      static_cast<std::vector<std::string>*>(out)->emplace_back(
          static_cast<const char*>(mnl_attr_get_payload(attribute)), mnl_attr_get_payload_len(attribute));
    });
    return MNL_CB_OK;
  };
  TRY_VOID(dump_flows(fd, source, {sequence, collect, &tuples}));
  return tuples;
}

// The state of a tracked TCP connection; nothing for other protocols.
std::optional<std::uint8_t> tcp_state(const nlmsghdr* message) {
  std::optional<std::uint8_t> state;
  auto read_field = [&](const nlattr* field) {
    if (mnl_attr_get_type(field) == CTA_PROTOINFO_TCP_STATE) state = mnl_attr_get_u8(field);
  };
  auto read_protocol = [&](const nlattr* protocol) {
    if (mnl_attr_get_type(protocol) == CTA_PROTOINFO_TCP) each_inner(protocol, read_field);
  };
  each_attribute(message, sizeof(nfgenmsg), [&](const nlattr* outer) {
    if (mnl_attr_get_type(outer) == CTA_PROTOINFO) each_inner(outer, read_protocol);
  });
  return state;
}

int count_open(const nlmsghdr* message, void* count) {
  std::optional<std::uint8_t> state = tcp_state(message);
  bool over =
      state == TCP_CONNTRACK_LAST_ACK || state == TCP_CONNTRACK_TIME_WAIT || state == TCP_CONNTRACK_CLOSE;
  if (state && !over) ++*static_cast<std::size_t*>(count);
  return MNL_CB_OK;
}

}  // namespace

Result<Netlink> Netlink::open_route() {
  TRY(Fd fd, open_socket(NETLINK_ROUTE));
  return Netlink(std::move(fd));
}

Result<void> Netlink::request(nlmsghdr* message, const std::string& what) {
  message->nlmsg_seq = ++sequence_;
  Result<void> done = exchange(fd_.get(), message, {message->nlmsg_seq, nullptr, nullptr});
  if (!done.ok()) return std::move(done).error().context(what);
  return success();
}

Result<void> Netlink::create_veth(const std::string& inside, const Mac& inside_mac,
                                  const std::string& outside, const Mac& outside_mac, int outside_netns) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  extra<ifinfomsg>(message)->ifi_family = AF_UNSPEC;
  mnl_attr_put_strz(message, IFLA_IFNAME, inside.c_str());
  mnl_attr_put(message, IFLA_ADDRESS, inside_mac.size(), inside_mac.data());
  nlattr* info = mnl_attr_nest_start(message, IFLA_LINKINFO);
  mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
  nlattr* data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
  nlattr* peer = mnl_attr_nest_start(message, VETH_INFO_PEER);
  extra<ifinfomsg>(message)->ifi_family = AF_UNSPEC;
  mnl_attr_put_strz(message, IFLA_IFNAME, outside.c_str());
  mnl_attr_put(message, IFLA_ADDRESS, outside_mac.size(), outside_mac.data());
  mnl_attr_put_u32(message, IFLA_NET_NS_FD, static_cast<std::uint32_t>(outside_netns));
  mnl_attr_nest_end(message, peer);
  mnl_attr_nest_end(message, data);
  mnl_attr_nest_end(message, info);
  return request(message, fmt::format("create link {}", outside));
}

Result<void> Netlink::delete_link(const std::string& name) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_DELLINK, 0);
  extra<ifinfomsg>(message)->ifi_family = AF_UNSPEC;
  mnl_attr_put_strz(message, IFLA_IFNAME, name.c_str());
  return request(message, fmt::format("delete link {}", name));
}

Result<std::uint32_t> Netlink::link_index(const std::string& name) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_GETLINK, 0);
  extra<ifinfomsg>(message)->ifi_family = AF_UNSPEC;
  mnl_attr_put_strz(message, IFLA_IFNAME, name.c_str());
  message->nlmsg_seq = ++sequence_;
  std::uint32_t index = 0;
  auto remember = [](const nlmsghdr* answer, void* out) {
    *static_cast<std::uint32_t*>(out) =
        static_cast<std::uint32_t>(static_cast<ifinfomsg*>(mnl_nlmsg_get_payload(answer))->ifi_index);
    return MNL_CB_OK;
  };
  Result<void> done = exchange(fd_.get(), message, {message->nlmsg_seq, remember, &index});
  if (done.ok()) return index;
  Error error = std::move(done).error().context(fmt::format("find link {}", name));
  if (error.sys_errno() == ENODEV) return std::move(error).with_code(Code::kNotFound);
  return error;
}

Result<std::vector<std::string>> Netlink::links(const std::string& prefix) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_GETLINK, NLM_F_DUMP);
  extra<ifinfomsg>(message)->ifi_family = AF_UNSPEC;
  message->nlmsg_seq = ++sequence_;
  std::vector<std::string> names;
  auto collect = [](const nlmsghdr* answer, void* out) {
    each_attribute(answer, sizeof(ifinfomsg), [out](const nlattr* attribute) {
      if (mnl_attr_get_type(attribute) != IFLA_IFNAME) return;
      static_cast<std::vector<std::string>*>(out)->emplace_back(mnl_attr_get_str(attribute));
    });
    return MNL_CB_OK;
  };
  TRY_VOID(exchange(fd_.get(), message, {message->nlmsg_seq, collect, &names}));
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix); });
  return names;
}

Result<void> Netlink::set_up(std::uint32_t link) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_NEWLINK, 0);
  auto* info = extra<ifinfomsg>(message);
  info->ifi_family = AF_UNSPEC;
  info->ifi_index = static_cast<int>(link);
  info->ifi_flags = IFF_UP;
  info->ifi_change = IFF_UP;
  return request(message, "set a link up");
}

Result<void> Netlink::move_link(std::uint32_t link, int netns) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_NEWLINK, 0);
  auto* info = extra<ifinfomsg>(message);
  info->ifi_family = AF_UNSPEC;
  info->ifi_index = static_cast<int>(link);
  mnl_attr_put_u32(message, IFLA_NET_NS_FD, static_cast<std::uint32_t>(netns));
  return request(message, "move a link to another network namespace");
}

Result<void> Netlink::add_address(std::uint32_t link, Ipv4 address, std::uint8_t prefix) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
  put_address(message, link, address, prefix);
  return request(message, "add an address");
}

Result<void> Netlink::remove_address(std::uint32_t link, Ipv4 address, std::uint8_t prefix) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_DELADDR, 0);
  put_address(message, link, address, prefix);
  return request(message, "remove an address");
}

Result<void> Netlink::add_route(std::uint32_t link, Ipv4 destination, std::uint8_t prefix,
                                std::optional<Ipv4> gateway) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
  auto* info = extra<rtmsg>(message);
  info->rtm_family = AF_INET;
  info->rtm_dst_len = prefix;
  info->rtm_table = RT_TABLE_MAIN;
  info->rtm_protocol = RTPROT_STATIC;
  info->rtm_scope = gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
  info->rtm_type = RTN_UNICAST;
  if (prefix > 0) mnl_attr_put(message, RTA_DST, destination.size(), destination.data());
  if (gateway) mnl_attr_put(message, RTA_GATEWAY, gateway->size(), gateway->data());
  mnl_attr_put_u32(message, RTA_OIF, link);
  return request(message, "add a route");
}

Result<void> Netlink::add_neighbour(std::uint32_t link, Ipv4 address, const Mac& mac) {
  char buffer[kBuffer];
  nlmsghdr* message = start(buffer, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE);
  auto* info = extra<ndmsg>(message);
  info->ndm_family = AF_INET;
  info->ndm_ifindex = static_cast<int>(link);
  info->ndm_state = NUD_PERMANENT;
  mnl_attr_put(message, NDA_DST, address.size(), address.data());
  mnl_attr_put(message, NDA_LLADDR, mac.size(), mac.data());
  return request(message, "add a neighbour");
}

// KERNEL: a filter by address is known to the dump (Linux 5.8), but not to the deletion of all, where 6.1
// takes it for one connection that is badly named (EINVAL; net/netfilter/nf_conntrack_netlink.c). A
// connection is deleted by the tuple that the dump gave, with its zone. Which parts the filter compares is a
// bit each, with names that no header for programs has (nf_internals.h). With version 0 the address family
// would be ignored.
Result<void> forget_flows(Ipv4 source) {
  constexpr char kWhat[] = "forget the connections of an address";
  TRY(Fd fd, open_socket(NETLINK_NETFILTER));
  std::uint32_t sequence = 1;
  Result<std::vector<std::string>> flows = flows_from(fd.get(), source, sequence);
  if (!flows.ok()) return std::move(flows).error().context(kWhat);
  for (const std::string& tuple : *flows) {
    char buffer[kBuffer];
    nlmsghdr* message = start_conntrack(buffer, IPCTNL_MSG_CT_DELETE, 0);
    mnl_attr_put(message, CTA_TUPLE_ORIG | NLA_F_NESTED, tuple.size(), tuple.data());
    message->nlmsg_seq = ++sequence;
    Result<void> done = exchange(fd.get(), message, {sequence, nullptr, nullptr});
    // ENOENT: it has ended by itself.
    if (!done.ok() && done.error().sys_errno() != ENOENT) return std::move(done).error().context(kWhat);
  }
  return success();
}

Result<std::size_t> open_flows(Ipv4 source) {
  TRY(Fd fd, open_socket(NETLINK_NETFILTER));
  std::size_t open = 0;
  Result<void> done = dump_flows(fd.get(), source, {1, count_open, &open});
  if (!done.ok()) return std::move(done).error().context("count the connections of an address");
  return open;
}

Result<Fd> watch_firewall() {
  Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!fd) return Error::from_errno(errno, "open a netfilter socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  int group = NFNLGRP_NFTABLES;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
    return Error::from_errno(errno, "watch the firewall");
  }
  return fd;
}

// What changed does not matter, nor do events that were lost (ENOBUFS): the reader looks at the ruleset
// itself.
void drain_firewall_events(int watch) {
  char buffer[kBuffer];
  for (;;) {
    ssize_t n = ::recv(watch, buffer, sizeof buffer, 0);
    if (n < 0 && errno != ENOBUFS && errno != EINTR) return;
  }
}

}  // namespace atl::sys
