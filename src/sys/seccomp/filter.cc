// SPDX-License-Identifier: Apache-2.0
#include "sys/seccomp/filter.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "sys/fd.h"
#include "sys/files.h"

namespace atl::sys {
namespace {

std::uint32_t raw(const FilterAction& action) {
  switch (action.kind) {
    case FilterAction::Kind::kAllow: return SCMP_ACT_ALLOW;
    case FilterAction::Kind::kErrno: return SCMP_ACT_ERRNO(static_cast<std::uint32_t>(action.error));
    case FilterAction::Kind::kKillProcess: return SCMP_ACT_KILL_PROCESS;
  }
  return SCMP_ACT_KILL_PROCESS;
}

scmp_arg_cmp raw(const ArgumentTest& test) {
  scmp_arg_cmp out{};
  out.arg = test.index;
  switch (test.op) {
    case ArgumentTest::Op::kEqual: out.op = SCMP_CMP_EQ; break;
    case ArgumentTest::Op::kNotEqual: out.op = SCMP_CMP_NE; break;
    case ArgumentTest::Op::kGreater: out.op = SCMP_CMP_GT; break;
    case ArgumentTest::Op::kMaskedEqual: out.op = SCMP_CMP_MASKED_EQ; break;
  }
  out.datum_a = test.value;
  out.datum_b = test.masked;
  return out;
}

Error seccomp_error(int code, std::string_view what) { return Error::from_errno(-code, what); }

Result<void> add_rule(scmp_filter_ctx context, const FilterRule& rule, std::uint32_t otherwise) {
  int number = seccomp_syscall_resolve_name(rule.call.c_str());
  // Negative numbers stand for calls of other architectures.
  if (number < 0 || raw(rule.action) == otherwise) return success();
  std::vector<scmp_arg_cmp> tests;
  for (const ArgumentTest& test : rule.tests) tests.push_back(raw(test));
  int done = seccomp_rule_add_exact_array(context, raw(rule.action), number,
                                          static_cast<unsigned>(tests.size()), tests.data());
  if (done != 0) return seccomp_error(done, fmt::format("filter rule for {}", rule.call));
  return success();
}

}  // namespace

Result<FilterProgram> compile_filter(const FilterPolicy& policy) {
  std::uint32_t otherwise = raw(policy.otherwise);
  std::unique_ptr<void, void (*)(void*)> context(seccomp_init(otherwise), seccomp_release);
  if (!context) return make_error(Code::kInternal, "libseccomp could not start a filter");
  seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, raw(policy.foreign));
  // 2 = binary tree: about 9 comparisons for 400 calls, where the kernel cannot cache the answer.
  seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  for (const FilterRule& rule : policy.rules) TRY_VOID(add_rule(context.get(), rule, otherwise));

  Fd memory(::memfd_create("filter", MFD_CLOEXEC));
  if (!memory) return Error::from_errno(errno, "make a memory file");
  int exported = seccomp_export_bpf(context.get(), memory.get());
  if (exported != 0) return seccomp_error(exported, "export the filter");
  if (::lseek(memory.get(), 0, SEEK_SET) != 0) return Error::from_errno(errno, "rewind the filter");
  TRY(std::string bytes, read_all(memory.get(), BPF_MAXINSNS * sizeof(sock_filter)));
  FilterProgram program(bytes.size() / sizeof(sock_filter));
  std::memcpy(program.data(), bytes.data(), program.size() * sizeof(sock_filter));
  return program;
}

FilterProgram chain_filters(const FilterProgram& first, const FilterProgram& second) {
  FilterProgram out = first;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].code != (BPF_RET | BPF_K) || out[i].k != SECCOMP_RET_ALLOW) continue;
    // Jumps of BPF_JA have 32 bits, so any distance is fine.
    out[i] = BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(first.size() - i - 1));
  }
  out.insert(out.end(), second.begin(), second.end());
  return out;
}

Result<void> install_filter(const FilterProgram& program) {
  sock_fprog raw_program{static_cast<unsigned short>(program.size()),
                         const_cast<sock_filter*>(program.data())};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Error::from_errno(errno, "set no_new_privs");
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &raw_program) != 0) {
    return Error::from_errno(errno, "install the system call filter");
  }
  return success();
}

}  // namespace atl::sys
