// SPDX-License-Identifier: Apache-2.0
//
// The system call filter, tried: each case is a call in a child that has the filter on.
#include "runner/container/profile.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace atl::runner::container {
namespace {

const sys::FilterProgram& program() {
  static const sys::FilterProgram compiled = [] {
    return sys::chain_filters(sys::compile_filter(allowed_calls()).value(),
                              sys::compile_filter(refused_arguments()).value());
  }();
  return compiled;
}

constexpr int kKilled = -1;

// errno of `call` under the filter, 0 when it succeeds, kKilled when the process is killed for it.
int under_filter(const std::function<long()>& call) {
  pid_t child = ::fork();
  if (child == 0) {
    if (!sys::install_filter(program()).ok()) ::_exit(255);
    errno = 0;
    long result = call();
    ::_exit(result < 0 ? errno : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGSYS ? kKilled : -WTERMSIG(status);
  return WEXITSTATUS(status);
}

TEST(Filter, FitsIntoTheKernel) { EXPECT_LT(program().size(), 4096u); }

TEST(Filter, OrdinaryCallsWork) {
  EXPECT_EQ(under_filter([] { return ::open("/dev/null", O_RDWR); }), 0);
  EXPECT_EQ(under_filter([]() -> long {
              pid_t child = ::fork();
              if (child == 0) ::_exit(0);
              return ::waitpid(child, nullptr, 0);
            }),
            0);
  EXPECT_EQ(under_filter([] { return ::socket(AF_INET6, SOCK_STREAM, 0); }), 0);
  EXPECT_EQ(under_filter([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }), 0);
  EXPECT_EQ(under_filter([] { return ::socket(AF_NETLINK, SOCK_RAW, 0); }), 0);
  EXPECT_EQ(under_filter([] { return ::syscall(SYS_personality, 0xffffffff); }), 0);
}

TEST(Filter, NewNamespacesAreRefusedOnEveryWay) {
  for (unsigned long flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC,
                             CLONE_NEWUTS, CLONE_NEWCGROUP}) {
    EXPECT_EQ(under_filter([flag] { return ::syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0); }), EPERM)
        << flag;
    EXPECT_EQ(under_filter([flag] { return ::unshare(static_cast<int>(flag)); }), EPERM) << flag;
  }
  clone_args args{};
  args.exit_signal = SIGCHLD;
  EXPECT_EQ(under_filter([&] { return ::syscall(SYS_clone3, &args, sizeof args); }), ENOSYS);
  EXPECT_EQ(under_filter([] { return ::setns(0, 0); }), EPERM);
}

TEST(Filter, MountsAndHandlesAreRefused) {
  EXPECT_EQ(under_filter([] { return ::syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, 0); }), EPERM);
  EXPECT_EQ(under_filter([] { return ::syscall(SYS_umount2, "/tmp", 0); }), EPERM);
  for (long call : {SYS_pivot_root,
                    SYS_fsopen,
                    SYS_open_tree,
                    SYS_move_mount,
                    SYS_mount_setattr,
                    SYS_open_by_handle_at,
                    SYS_name_to_handle_at,
                    SYS_bpf,
                    SYS_perf_event_open,
                    SYS_userfaultfd,
                    SYS_keyctl,
                    SYS_add_key,
                    SYS_request_key,
                    SYS_init_module,
                    SYS_finit_module,
                    SYS_kexec_load,
                    SYS_reboot,
                    SYS_swapon,
                    SYS_acct,
                    SYS_quotactl,
                    SYS_settimeofday,
                    SYS_clock_settime,
                    SYS_iopl,
                    SYS_syslog,
                    SYS_pidfd_getfd,
                    SYS_sethostname,
                    SYS_modify_ldt}) {
    EXPECT_EQ(under_filter([call] { return ::syscall(call, 0, 0, 0, 0, 0, 0); }), EPERM) << call;
  }
}

TEST(Filter, UnknownCallsAreMissing) {
  EXPECT_EQ(under_filter([] { return ::syscall(SYS_io_uring_setup, 1, nullptr); }), ENOSYS);
  EXPECT_EQ(under_filter([] { return ::syscall(1000); }), ENOSYS);
}

TEST(Filter, SocketFamiliesAreAFew) {
  for (int family : {AF_ALG, AF_PACKET, AF_VSOCK, AF_RXRPC, AF_BLUETOOTH, AF_KEY, AF_TIPC, 0, 45}) {
    EXPECT_EQ(under_filter([family] { return ::socket(family, SOCK_RAW, 0); }), EAFNOSUPPORT) << family;
    EXPECT_EQ(under_filter([family] { return ::socketpair(family, SOCK_RAW, 0, nullptr); }), EAFNOSUPPORT)
        << family;
  }
  for (int protocol : {6 /* XFRM */, 12 /* netfilter */, 9 /* audit */, 16 /* generic */}) {
    EXPECT_EQ(under_filter([protocol] { return ::socket(AF_NETLINK, SOCK_RAW, protocol); }), EPROTONOSUPPORT);
  }
  // The kernel reads an int: upper bits must not be a way around.
  EXPECT_NE(under_filter([] { return ::syscall(SYS_socket, 0x100000000 | AF_ALG, SOCK_SEQPACKET, 0); }), 0);
}

TEST(Filter, TypingIntoTerminalsIsRefusedAlsoWithUpperBits) {
  char byte = 'x';
  EXPECT_EQ(under_filter([&] { return ::ioctl(0, TIOCSTI, &byte); }), EPERM);
  EXPECT_EQ(under_filter([&] { return ::syscall(SYS_ioctl, 0, 0x100000000 | TIOCSTI, &byte); }), EPERM);
  EXPECT_EQ(under_filter([&] { return ::ioctl(0, TIOCLINUX, &byte); }), EPERM);
}

TEST(Filter, PersonalitiesThatWeakenAreMissing) {
  EXPECT_EQ(under_filter([] { return ::syscall(SYS_personality, READ_IMPLIES_EXEC); }), ENOSYS);
  EXPECT_EQ(under_filter([] { return ::syscall(SYS_personality, ADDR_NO_RANDOMIZE); }), ENOSYS);
}

#if defined(__x86_64__)
TEST(Filter, CallsOfOtherArchitecturesKill) {
  EXPECT_EQ(under_filter([]() -> long {
              long result = 20;  // getpid of i386
              asm volatile("int $0x80" : "+a"(result) : : "memory");
              return result;
            }),
            kKilled);
  constexpr long kX32 = 0x40000000;
  EXPECT_EQ(under_filter([] { return ::syscall(kX32 | SYS_getpid); }), kKilled);
}
#endif

TEST(Profile, CapabilitiesAreTheTwelve) {
  EXPECT_EQ(kCapabilities, 0xa00405fbull);
  EXPECT_EQ(kCapabilities &
                (1ull << CAP_SYS_ADMIN | 1ull << CAP_NET_ADMIN | 1ull << CAP_NET_RAW | 1ull << CAP_MKNOD |
                 1ull << CAP_SYS_PTRACE | 1ull << CAP_SYS_RESOURCE | 1ull << CAP_DAC_READ_SEARCH),
            0u);
}

}  // namespace
}  // namespace atl::runner::container
