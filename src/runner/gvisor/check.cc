// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/patience.h"
#include "base/text.h"
#include "model/guest_boot.h"
#include "runner/names.h"
#include "runner/self_tests.h"
#include "runner/start_parts.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::runner::gvisor {
namespace {

using sys::Fd;

constexpr char kStarts[] = "starts";
constexpr int kFirstYear = 2024;
constexpr Millis kVersionBound{5'000};
constexpr Millis kAnswerBound{5'000};
constexpr Millis kSlotBound{5'000};
constexpr uid_t kNobody = 65534;
constexpr std::uint64_t kTestMemory = 256ull << 20;
constexpr std::uint32_t kTestProcesses = 512;

enum Verdict : int { kGood = 0, kOld = 10, kUnknown = 11 };

Result<std::string> in_path() {
  const char* path = std::getenv("PATH");
  for (std::string_view directory : split(path != nullptr ? path : "/usr/local/bin:/usr/bin", ':')) {
    std::string candidate = fmt::format("{}/runsc", directory);
    if (!directory.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return make_error(Code::kNotFound, "there is no runsc in PATH")
      .with_hint("install the package runsc (Debian 12: from bookworm-backports), or name it with --runsc");
}

void become_nobody() {
  const rlimit none{0, 0};
  bool done = ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
              ::setresuid(kNobody, kNobody, kNobody) == 0 && ::setrlimit(RLIMIT_FSIZE, &none) == 0 &&
              ::setrlimit(RLIMIT_CORE, &none) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (!done) ::_exit(kUnknown);
}

// In a child without rights, so that what the program prints is read where nothing can be lost.
[[noreturn]] void judge_version(int program) {
  become_nobody();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) ::_exit(kUnknown);
  pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], 1);
    const char* arguments[] = {"runsc", "--version", nullptr};
    const char* environment[] = {nullptr};
    ::syscall(SYS_execveat, program, "", arguments, environment, AT_EMPTY_PATH);
    ::_exit(127);
  }
  ::close(ends[1]);
  int year = release_year(sys::read_all(ends[0], 4096).value_or(""));
  ::_exit(year == 0 ? kUnknown : year < kFirstYear ? kOld : kGood);
}

Result<void> check_version(int program, const std::string& path) {
  pid_t pid = ::fork();
  if (pid < 0) return Error::from_errno(errno, "fork to look at runsc");
  if (pid == 0) judge_version(program);
  Result<Fd> child = sys::open_pidfd(pid);
  bool ended = child.ok() && sys::wait_for_end(child->get(), patient(kVersionBound));
  if (!ended) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  int verdict = ended && WIFEXITED(status) ? WEXITSTATUS(status) : kUnknown;
  if (verdict == kGood) return success();
  if (verdict == kOld) {
    return make_error(Code::kUnsupported,
                      "{} is from before {}: it has no systrap platform, and ls fails under it", path,
                      kFirstYear)
        .with_word(kTooOld)
        .with_hint("Debian 12: take it from bookworm-backports");
  }
  return make_error(Code::kUnsupported, "{} does not say which release it is", path);
}

// A connection over the slot's link: the guest's network stack answers, with the right address.
Result<void> connect_to(std::uint32_t slot) {
  std::string link = link_name(slot);
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, link.data(), static_cast<socklen_t>(link.size()));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(model::kGuestPort);
  ::inet_pton(AF_INET, model::kGuestAddress, &address.sin_addr);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS)
    return Error::from_errno(errno, "connect to the guest daemon");
  pollfd item{fd.get(), POLLOUT, 0};
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (::poll(&item, 1, static_cast<int>(patient(kAnswerBound).count())) > 0)
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return Error::from_errno(error, "connect to the guest daemon over the slot's link");
  return success();
}

Result<void> start_and_connect(const TestParts& parts, Leases& leases) {
  StartSpec spec;
  spec.sandbox = kTestSandbox;
  spec.limits.memory_bytes = kTestMemory;
  spec.limits.cpu_millis = 1000;
  spec.limits.processes = kTestProcesses;
  spec.limits.open_files = 1024;
  spec.limits.disk_bytes = parts.disk_bytes;
  TRY(leases.disk, parts.disks.lease(kTestSandbox, parts.disk_bytes));
  model::Overhead overhead = parts.driver.overhead();
  TRY(leases.cgroup, parts.cgroups.create(kTestSandbox, {kTestMemory + overhead.memory_bytes, 1000,
                                                         kTestProcesses + overhead.processes}));
  TRY(Fd lower, sys::mount_new("tmpfs", {{"size", "4k"}, {"mode", "0755"}}, sys::kReadOnly | sys::kNoDev));
  StepTimes times{};
  TRY(Started started, parts.driver.start_on(lower.get(), spec, leases, times));
  Result<void> answered = connect_to(leases.slot.number);
  TRY_VOID(parts.driver.stop({kTestSandbox, started.pid, started.pidfd.get()}));
  return answered;
}

}  // namespace

// "0.0~20240729.0" (Debian) and "release-20240729.0" (gVisor's own).
int release_year(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end - at == 8) {
      int year = parse_number<int>(text.substr(at, 4)).value_or(0);
      if (year >= 2018 && year < 2100) return year;
    }
    at = end + 1;
  }
  return 0;
}

Result<Fd> find_runsc(const std::string& given) {
  if (given == "none") return make_error(Code::kUnsupported, "switched off by --runsc none");
  std::string path = given;
  if (path.empty()) {
    TRY(path, in_path());
  }
  TRY(Fd program, sys::open_file(path, O_RDONLY));
  TRY_VOID(check_version(program.get(), path));
  return program;
}

Result<void> self_test(const TestParts& parts) {
  Leases leases;
  TRY(leases.slot, parts.slots.lease(patient(kSlotBound)));
  std::uint32_t number = leases.slot.number;
  Result<void> result = start_and_connect(parts, leases);
  leases = {};
  take_back(parts.cgroups, parts.disks, parts.slots, kTestSandbox, number);
  if (!result.ok()) return std::move(result).error().context("self-test");
  keep_outcome(parts.memory, parts.driver.runtime(), kStarts);
  return success();
}

// A failure is not kept: what was in the way may be gone.
bool known_to_start(const TestParts& parts) {
  return recall_outcome(parts.memory, parts.driver.runtime()) == kStarts;
}

}  // namespace atl::runner::gvisor
