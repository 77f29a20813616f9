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

Result<Fd> open_pidfd(pid_t pid) {
  long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) {
    Error error = Error::from_errno(errno, fmt::format("open pidfd of {}", pid));
    if (errno == ESRCH) return std::move(error).with_code(Code::kNotFound);
    return error;
  }
  return Fd(static_cast<int>(fd));
}

Result<std::uint64_t> start_ticks(pid_t pid) {
  TRY(std::string stat, read_file(fmt::format("/proc/{}/stat", pid)));
  // The second field is the command in parentheses and may hold anything; the third follows the last ')'.
  std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return make_error(Code::kCorrupt, "/proc/{}/stat has no command field", pid);
  std::vector<std::string_view> fields = split(std::string_view(stat).substr(end + 2), ' ');
  constexpr std::size_t kStartTime = 22 - 3;
  if (fields.size() <= kStartTime) return make_error(Code::kCorrupt, "/proc/{}/stat is too short", pid);
  std::optional<std::uint64_t> ticks = parse_number<std::uint64_t>(fields[kStartTime]);
  if (!ticks) return make_error(Code::kCorrupt, "/proc/{}/stat has no start time", pid);
  return *ticks;
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
