// SPDX-License-Identifier: Apache-2.0
#include "sys/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "sys/files.h"

namespace atl::sys {
namespace {

// Field `number` of /proc/<pid>/stat, counted from 1 as in proc(5); one after the command.
Result<std::uint64_t> stat_number(pid_t pid, std::size_t number) {
  TRY(std::string stat, read_file(fmt::format("/proc/{}/stat", pid)));
  // The second field is the command in parentheses and may hold anything; the third follows the last ')'.
  std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return make_error(Code::kCorrupt, "/proc/{}/stat has no command field", pid);
  std::vector<std::string_view> fields = split(std::string_view(stat).substr(end + 2), ' ');
  if (fields.size() <= number - 3) return make_error(Code::kCorrupt, "/proc/{}/stat is too short", pid);
  std::optional<std::uint64_t> value = parse_number<std::uint64_t>(fields[number - 3]);
  if (!value) return make_error(Code::kCorrupt, "/proc/{}/stat has no number in field {}", pid, number);
  return *value;
}

}  // namespace

Result<Fd> open_pidfd(pid_t pid) {
  long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) {
    Error error = Error::from_errno(errno, fmt::format("open pidfd of {}", pid));
    if (errno == ESRCH) return std::move(error).with_code(Code::kNotFound);
    return error;
  }
  return Fd(static_cast<int>(fd));
}

Result<std::uint64_t> start_ticks(pid_t pid) { return stat_number(pid, 22); }

bool is_kernel_thread(pid_t pid) {
  constexpr std::uint64_t kKernelThread = 0x00200000;  // PF_KTHREAD, include/linux/sched.h
  Result<std::uint64_t> flags = stat_number(pid, 9);
  return flags.ok() && (*flags & kKernelThread) != 0;
}

Result<Fd> open_same_process(pid_t pid, std::uint64_t ticks) {
  TRY(Fd fd, open_pidfd(pid));
  Result<std::uint64_t> now = start_ticks(pid);
  // Read after the pidfd was opened: if the time is right, then the descriptor is of the right process.
  if (!now.ok() || *now != ticks) return make_error(Code::kNotFound, "process {} is another one by now", pid);
  return fd;
}

Result<void> signal_process(int pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0 && errno != ESRCH) {
    return Error::from_errno(errno, fmt::format("send signal {}", signal));
  }
  return success();
}

bool wait_for_end(int pidfd, Millis timeout) {
  Steady::time_point until = Steady::now() + timeout;
  for (;;) {
    pollfd item{pidfd, POLLIN, 0};
    auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
    int n = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

}  // namespace atl::sys
