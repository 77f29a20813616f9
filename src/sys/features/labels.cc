// SPDX-License-Identifier: Apache-2.0
//
// Identities of labelled commands: a process in a group sends, and its datagram must arrive with the source
// of the group, as one of another process must not. That the rule loads says little: kernels before 6.11
// count the level of a group from another root than ours where there are namespaces of cgroups
// (nft_socket.c).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "sys/cgroup.h"
#include "sys/fd.h"
#include "sys/features/probes.h"
#include "sys/files.h"
#include "sys/netlink/netlink.h"

namespace atl::sys::probe {
namespace {

constexpr std::uint32_t kOwn = 0x7f000001, kOfGroup = 0x7f000009;  // 127.0.0.1, 127.0.0.9
constexpr timeval kPatience{1, 0};

Error no(int number, const char* what) { return Error::from_errno(number, what); }

Result<void> bring_up_loopback() {
  TRY(Netlink netlink, Netlink::open_route());
  TRY(std::uint32_t link, netlink.link_index("lo"));
  return netlink.set_up(link);
}

Result<Fd> datagrams() {
  Fd made(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!made) return no(errno, "make a socket");
  ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(kOwn);
  if (::bind(made.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) return no(errno, "bind");
  return made;
}

// From a socket that is made now: it belongs to the group that its maker is in.
Result<void> send_to(const Fd& receiver) {
  TRY(Fd sender, datagrams());
  sockaddr_in where{};
  socklen_t size = sizeof where;
  bool sent = ::getsockname(receiver.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0 &&
              ::sendto(sender.get(), "x", 1, 0, reinterpret_cast<sockaddr*>(&where), size) == 1;
  return sent ? success() : Result<void>(no(errno, "send"));
}

Result<void> send_from_group(const Fd& receiver, const std::string& group) {
  pid_t child = ::fork();
  if (child < 0) return no(errno, "fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Result<void> done = write_file(group + "/cgroup.procs", "0");
    if (done.ok()) done = send_to(receiver);
    ::_exit(number_of(done));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  int number = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
  return number == 0 ? success() : Result<void>(no(number, "send from a group"));
}

// EOPNOTSUPP: it came, and from somewhere else.
Result<void> expect_from(const Fd& receiver, std::uint32_t source) {
  sockaddr_in from{};
  socklen_t size = sizeof from;
  char byte = 0;
  if (::recvfrom(receiver.get(), &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &size) != 1)
    return no(errno, "receive");
  return from.sin_addr.s_addr == htonl(source) ? success() : Result<void>(no(EOPNOTSUPP, "compare sources"));
}

Result<void> try_labels(const std::string& group, std::uint32_t level) {
  if (::unshare(CLONE_NEWNET) != 0) return no(errno, "unshare");
  TRY_VOID(bring_up_loopback());
  int loaded =
      load_rules(fmt::format("table ip probe {{ chain c {{ type filter hook output priority raw; "
                             "ip saddr set socket cgroupv2 level {} map {{ \"{}\" : 127.0.0.9 }}; }}; }}",
                             level, nft_group(group)));
  if (loaded != 0) return no(loaded, "load a rule");
  TRY(Fd receiver, datagrams());
  TRY_VOID(send_from_group(receiver, group));
  TRY_VOID(expect_from(receiver, kOfGroup));
  TRY_VOID(send_to(receiver));
  return expect_from(receiver, kOwn);
}

}  // namespace

int process_labels() { return in_tree(try_labels); }

}  // namespace atl::sys::probe
