// SPDX-License-Identifier: Apache-2.0
#include "guest/no_network.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace atl::guest {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "say which system calls this architecture has"
#endif
// KERNEL: numbers with this bit are the x32 table of x86-64 (arch/x86/include/uapi/asm/unistd.h); no other
// architecture has numbers so high.
constexpr std::uint32_t kOtherTable = 0x40000000;

constexpr std::array<std::uint32_t, 5> kRefused{SYS_socket, SYS_io_uring_setup, SYS_ptrace,
                                                SYS_process_vm_writev, SYS_pidfd_getfd};

constexpr sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
constexpr sock_filter answer(std::uint32_t with) { return BPF_STMT(BPF_RET | BPF_K, with); }
// To the next instruction when the word that was loaded compares so, else over one.
constexpr sock_filter when(std::uint16_t compare, std::uint32_t with) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | compare | BPF_K), with, 0, 1);
}
constexpr sock_filter unless(std::uint16_t compare, std::uint32_t with) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | compare | BPF_K), with, 1, 0);
}

constexpr auto make_program() {
  constexpr std::uint32_t kNoSuchCall = SECCOMP_RET_ERRNO | ENOSYS, kNo = SECCOMP_RET_ERRNO | EACCES;
  std::array<sock_filter, 6 + 2 * kRefused.size() + 1> out{
      load(offsetof(seccomp_data, arch)), unless(BPF_JEQ, kArchitecture), answer(kNoSuchCall),
      load(offsetof(seccomp_data, nr)),   when(BPF_JGE, kOtherTable),     answer(kNoSuchCall)};
  std::size_t next = 6;
  for (std::uint32_t call : kRefused) {
    out[next++] = when(BPF_JEQ, call);
    out[next++] = answer(kNo);
  }
  out[next] = answer(SECCOMP_RET_ALLOW);
  return out;
}

}  // namespace

const sock_fprog* no_network_filter() {
  static auto program = make_program();
  static const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return &filter;
}

}  // namespace atl::guest
