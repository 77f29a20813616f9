// SPDX-License-Identifier: Apache-2.0
//
// Bounded forms of exhaustion (R01-R13, K30, K33): each stops a little above the sandbox's own limit, so that
// a missing limit shows and the machine survives.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "probe.h"

namespace atl::escape {
namespace {

// Children that only wait, until `wanted` live or fork fails. Reached when all could be made.
Outcome fork_bomb(const Args& args) {
  int wanted = int_arg(args, "processes");
  std::vector<long> children;
  int error = 0;
  while (static_cast<int>(children.size()) < wanted) {
    long pid = raw(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
      for (;;) raw(SYS_pause);
    }
    if (pid < 0) {
      error = errno;
      break;
    }
    children.push_back(pid);
  }
  for (long pid : children) raw(SYS_kill, pid, SIGKILL);
  for (long pid : children) raw(SYS_wait4, pid, nullptr, 0, nullptr);
  bool all = static_cast<int>(children.size()) == wanted;
  return {all, error, std::to_string(children.size()) + " processes"};
}

// Touches pages until `memory_mib` are in use; the kernel's killer ends the probe at the limit.
Outcome touch(char* memory, const Args& args) {
  std::size_t size = static_cast<std::size_t>(int_arg(args, "memory_mib")) << 20;
  if (memory == MAP_FAILED) return blocked(errno, "mmap");
  static_cast<void>(
      try_write("/proc/self/oom_score_adj", "1000"));  // this process, and not the one that reports
  for (std::size_t at = 0; at < size; at += 4096) memory[at] = 1;
  return reached(arg(args, "memory_mib") + " MiB in use");
}

Outcome anonymous_memory(const Args& args) {
  std::size_t size = static_cast<std::size_t>(int_arg(args, "memory_mib")) << 20;
  return touch(static_cast<char*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
               args);
}

Outcome memfd_memory(const Args& args) {
  std::size_t size = static_cast<std::size_t>(int_arg(args, "memory_mib")) << 20;
  long fd = raw(SYS_memfd_create, "escape", 0);
  if (fd < 0 || raw(SYS_ftruncate, fd, size) < 0) return blocked(errno, "memfd");
  return touch(
      static_cast<char*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(fd), 0)),
      args);
}

// A file in a folder, by fallocate, until `mib` are taken or there is no more space.
Outcome fill(const char* path, long mib) {
  long fd = raw(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return blocked(errno, "open");
  long done = 0;
  int error = 0;
  for (; done < mib; done += 64)
    if (raw(SYS_fallocate, fd, 0, done << 20, 64L << 20) < 0) {
      error = errno;
      break;
    }
  raw(SYS_unlinkat, AT_FDCWD, path, 0);
  return {error == 0, error, std::to_string(done) + " MiB taken"};
}

// Instances of inotify until the quota ends. With a quota of its own per sandbox, a neighbour still gets
// some: the harness asks for one there while this probe holds all of its own.
Outcome inotify_hold(const Args& args) {
  int count = 0;
  while (count < 100000 && raw(SYS_inotify_init1, IN_CLOEXEC) >= 0) ++count;
  int error = errno;
  std::string ready = arg(args, "hold_file");
  if (!ready.empty()) {
    long fd = raw(SYS_openat, AT_FDCWD, ready.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    raw(SYS_close, fd);
    for (int i = 0; i < 40 && raw(SYS_faccessat, AT_FDCWD, ready.c_str(), 0) == 0; ++i) {
      timespec pause{0, 100'000'000};
      raw(SYS_nanosleep, &pause, nullptr);
    }
  }
  return {false, error, std::to_string(count) + " instances"};
}

// How many processes wait for pid 1 to reap them.
int zombies_of_init() {
  int count = 0;
  DIR* open = ::opendir("/proc");
  while (dirent* entry = open != nullptr ? ::readdir(open) : nullptr) {
    std::string text = read_text(("/proc/" + std::string(entry->d_name) + "/stat").c_str(), 512);
    std::size_t end = text.rfind(')');
    if (end != std::string::npos && text.compare(end, 6, ") Z 1 ") == 0) ++count;
  }
  if (open != nullptr) ::closedir(open);
  return count;
}

// Orphans that end at once; pid 1 must reap them.
Outcome zombie_flood(const Args&) {
  for (int i = 0; i < 200; ++i) {
    long pid = raw(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
      raw(SYS_clone, SIGCHLD, 0, 0, 0, 0);  // both the child and its child end here: the second is an orphan
      raw(SYS_exit_group, 0);
    }
    if (pid > 0) raw(SYS_wait4, pid, nullptr, 0, nullptr);
  }
  int left = 0;
  for (int i = 0; i < 20 && (i == 0 || left > 0); ++i) {
    timespec pause{0, 50'000'000};
    raw(SYS_nanosleep, &pause, nullptr);
    left = zombies_of_init();
  }
  return {left > 100, 0, std::to_string(left) + " of 200 orphans were not reaped"};
}

Outcome pipe_memory(const Args&) {
  int raised = 0;
  for (int i = 0; i < 256; ++i) {
    int ends[2];
    if (raw(SYS_pipe2, ends, O_CLOEXEC) < 0) break;
    if (raw(SYS_fcntl, ends[0], F_SETPIPE_SZ, 1 << 20) > 0) ++raised;
  }
  return {raised == 256, 0, std::to_string(raised) + " pipes of 1 MiB"};
}

// --- random calls
// -----------------------------------------------------------------------------------------------

// Calls that would only end or stop the batch.
constexpr long kNeverCalled[] = {SYS_exit,  SYS_exit_group, SYS_pause,       SYS_rt_sigsuspend,
                                 SYS_vfork, SYS_fork,       SYS_clone,       SYS_clone3,
                                 SYS_kill,  SYS_tkill,      SYS_tgkill,      SYS_rt_sigtimedwait,
                                 SYS_wait4, SYS_waitid,     SYS_rt_sigreturn};

[[noreturn]] void call_at_random(std::uint64_t state) {
  auto next = [&state] {
    return static_cast<long>((state = state * 6364136223846793005ull + 1442695040888963407ull) >> 7);
  };
  for (int i = 0; i < 500; ++i) {
    long number = next() % 470;
    bool skip = false;
    for (long never : kNeverCalled) skip = skip || never == number;
    if (!skip) raw(number, next() & 0xff, next(), next() & 0xffff, next(), next() & 7, next());
  }
  raw(SYS_exit_group, 0);
  for (;;) {}
}

// For three seconds, in batches of a child each; a batch that hangs is ended. The oracle is the host's kernel
// log.
Outcome random_calls(const Args& args) {
  timespec start{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  auto seed = static_cast<std::uint64_t>(int_arg(args, "seed"));
  int batches = 0;
  for (timespec now = start; now.tv_sec - start.tv_sec < 3; ::clock_gettime(CLOCK_MONOTONIC, &now)) {
    long pid = raw(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) call_at_random((seed + static_cast<std::uint64_t>(batches)) * 0x9e3779b97f4a7c15ull);
    ++batches;
    for (int i = 0; i < 100 && raw(SYS_wait4, pid, nullptr, WNOHANG, nullptr) == 0; ++i) {
      timespec pause{0, 1'000'000};
      raw(SYS_nanosleep, &pause, nullptr);
    }
    raw(SYS_kill, pid, SIGKILL);
    raw(SYS_wait4, pid, nullptr, 0, nullptr);
  }
  return {false, 0, std::to_string(batches) + " batches of 500 calls"};
}

constexpr Probe kProbes[] = {
    {"R01.fork_bomb", "make more processes than allowed", fork_bomb},
    {"R03.anonymous", "use more memory than allowed", anonymous_memory},
    {"R03.memfd", "use more memory than allowed, in a memfd", memfd_memory},
    {"R04.disk", "fill the disk beyond its size",
     [](const Args& args) { return fill("/var/tmp/.escape-fill", int_arg(args, "disk_mib")); }},
    {"R04.shm", "fill /dev/shm beyond the memory limit",
     [](const Args& args) { return fill("/dev/shm/.escape-fill", int_arg(args, "memory_mib")); }},
    {"R08.zombies", "leave 200 orphans", zombie_flood},
    {"R13.pipes", "raise 256 pipes to 1 MiB", pipe_memory},
    {"K30.inotify", "take every inotify instance", inotify_hold},
    {"K33.random_calls", "random system calls for three seconds", random_calls},
};

}  // namespace

std::span<const Probe> resource_probes() { return kProbes; }

}  // namespace atl::escape
