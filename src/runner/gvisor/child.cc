// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/child.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "model/guest_boot.h"
#include "runner/gvisor/memory_files.h"
#include "runner/gvisor/runsc.h"

namespace atl::runner::gvisor {
namespace {

// runsc's directories below the new root, which holds nothing else.
constexpr const char* kDirectories[] = {"root/rootfs",      "root/proc",
                                        "root/dev",         "root/disk",
                                        "root/state",       "root/bundle",
                                        "root/sys",         "root/tmp",
                                        "root/procsys",     "root/procsys/vm",
                                        "root/procsys/fs",  "root/procsys/kernel",
                                        "root/procsys/net", "root/procsys/net/core"};

// Above those that runsc is given, below those of the launcher.
constexpr int kFirstKeptFd = 8;

class Child : ChildSteps {
 public:
  explicit Child(const ChildPlan& plan) : ChildSteps(plan) {}
  [[noreturn]] void run();

 private:
  void build_root();
  void hold_tmp();
  void mount_proc();
  void write_text(const char* path, const char* text, std::size_t size);
  void enter_root();
  void write_bundle();
  void wait_for_network();
  void set_limits();
  pid_t start_runsc();
  void close_others();
  [[noreturn]] void exec_runsc();
  bool restores() const { return fd(memory_fd(0)) >= 0; }
  void attach_memory();
  int stand_still();
  void restore();
  void go_on();
  void wait_for_runsc(pid_t runsc);
  [[noreturn]] void watch();
  void set_title();
};

// It goes on long after the runner whose command line it was born with.
void Child::set_title() {
  static constexpr char kTitle[] = "atoll-gvisor";
  ::prctl(PR_SET_NAME, kTitle);
  std::memset(plan_.title.data(), 0, plan_.title.size());
  std::memcpy(plan_.title.data(), kTitle, std::min(sizeof kTitle - 1, plan_.title.size()));
}

// See model::kTmpHolder. What /tmp is on a disk that was used before, the sandbox decided: then nothing is
// followed, and a /tmp that is not empty needs no holder.
void Child::hold_tmp() {
  open_how how{};
  how.flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  how.mode = 0600;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long made = ::syscall(SYS_openat2, root_, model::kTmpHolder + 1, &how, sizeof how);
  if (made >= 0) ::close(static_cast<int>(made));
}

void Child::write_text(const char* path, const char* text, std::size_t size) {
  int file = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0444);
  check(file, path);
  if (::write(file, text, size) != static_cast<ssize_t>(size)) fail(path);
  ::close(file);
}

// KERNEL: from 6.x on every network namespace shows net.core.rmem_default, which runsc takes for the sign
// that it runs in the host's own namespace, and refuses. So it sees the parts of /proc/sys that it needs and
// no other. It reports as the sandbox's memory what /proc/meminfo says, so that says what the sandbox may
// use.
void Child::mount_proc() {
  mount("proc", "root/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  mount("root/proc/sys/vm", "root/procsys/vm", nullptr, MS_BIND, nullptr);
  mount("root/proc/sys/fs", "root/procsys/fs", nullptr, MS_BIND, nullptr);
  mount("root/proc/sys/kernel", "root/procsys/kernel", nullptr, MS_BIND, nullptr);
  write_text("root/procsys/net/core/somaxconn", "4096\n", 5);
  mount("root/procsys", "root/proc/sys", nullptr, MS_BIND | MS_REC, nullptr);
  char text[128];
  auto kib = static_cast<unsigned long long>(plan_.order.memory_bytes / 1024);
  int size = std::snprintf(text, sizeof text, "MemTotal: %12llu kB\nMemFree:  %12llu kB\n", kib, kib);
  write_text("root/meminfo", text, static_cast<std::size_t>(size));
  mount("root/meminfo", "root/proc/meminfo", nullptr, MS_BIND, nullptr);
}

void Child::build_root() {
  mount("tmpfs", "root", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=128,mode=0755");
  for (const char* path : kDirectories) check(::mkdir(path, 0755), path);
  mount_overlay("root/rootfs");
  // Beside the guest's tree and out of its reach: its memory is written to files there.
  mount("disk", "root/disk", nullptr, MS_BIND, nullptr);
  if (restores()) attach_memory();
  if (!restores()) hold_tmp();
  write_text("root/guestd", "", 0);
  attach(fd(Passed::kGuestd), AT_FDCWD, "root/guestd");
  mount_proc();
  mount("kit/dev", "root/dev", nullptr, MS_BIND, nullptr);
}

// KERNEL: with both arguments ".", the old root ends up below the new one (pivot_root(2)).
void Child::enter_root() {
  check(::chdir("root"), "enter the root");
  check(::syscall(SYS_pivot_root, ".", "."), "pivot_root");
  check(::umount2(".", MNT_DETACH), "detach the old root");
  check(::chdir("/"), "enter /");
}

void Child::write_bundle() {
  char block[4096];
  for (;;) {
    ssize_t size = ::read(fd(Passed::kBundle), block, sizeof block);
    check(size, "read the bundle");
    if (size == 0) return;
    write_text("/bundle/config.json", block, static_cast<std::size_t>(size));
  }
}

// The end of the pipe: the runner is gone, and nobody will bring the link.
void Child::wait_for_network() {
  char byte;
  if (::read(fd(Passed::kGo), &byte, 1) != 1) ::_exit(125);
}

void Child::set_limits() {
  const rlimit none{0, 0};
  check(::setrlimit(RLIMIT_CORE, &none), "forbid core files");
}

// In the place of empty files, since their folder is closed to this user.
void Child::attach_memory() {
  check(::mkdir("root/memory", 0755), "make a folder for memory");
  for (std::size_t i = 0; i < kMemoryFileCount; ++i) {
    char path[64];
    std::snprintf(path, sizeof path, "root%s/%s", kReadMemory, kMemoryFiles[i]);
    write_text(path, "", 0);
    attach(fd(memory_fd(i)), AT_FDCWD, path);
  }
}

// Everything is in place, and nothing of the guest has run. Returns where the word to go on comes from.
int Child::stand_still() {
  check(::mknod(kGoFifo, S_IFIFO | 0600, 0), "make a fifo");
  // Also to write, so that it does not end when a writer goes away.
  int fifo = ::open(kGoFifo, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  check(fifo, "open a fifo");
  return fifo;
}

// What is read is mapped no more once it has gone on, so the files may go.
void Child::go_on() {
  for (const char* name : kMemoryFiles) {
    char path[64];
    std::snprintf(path, sizeof path, "%s/%s", kReadMemory, name);
    check(::umount2(path, MNT_DETACH), "let go of memory files");
  }
  check(::unlink(kGoFifo), "say that it has gone on");
}

pid_t Child::start_runsc() {
  pid_t runsc = ::fork();
  check(runsc, "fork for runsc");
  if (runsc == 0) exec_runsc();
  close_others();
  return runsc;
}

// The ends of the guest's pipes must be nowhere but in the guest, or their end would be told to nobody.
void Child::close_others() {
  if (fd(Passed::kStatus) < 0) {
    check(::syscall(SYS_close_range, 0, ~0u, 0), "close descriptors");
    return;
  }
  auto status = static_cast<unsigned>(fd(Passed::kStatus));
  check(::syscall(SYS_close_range, status + 1, ~0u, 0), "close descriptors");
  check(::syscall(SYS_close_range, 0, status - 1, 0), "close descriptors");
}

void Child::exec_runsc() {
  static_assert(kGuestBootFd == 3 && kBootFd == 3 && kGuestReadyFd == 4 && kReadyFd == 4);
  int first_free = kFirstKeptFd + static_cast<int>(kPassedCount);
  int program = fd(Passed::kProgram), log = fd(Passed::kLog);
  if (restores()) {
    fail(
        gvisor::exec_runsc({program,
                            log,
                            -1,
                            -1,
                            first_free,
                            {"restore", "--detach", "--bundle=/bundle", "--image-path=/memory", "sandbox"}}));
  }
  fail(gvisor::exec_runsc(
      {program,
       log,
       fd(Passed::kBoot),
       fd(Passed::kReady),
       first_free,
       {"run", "--detach", "--bundle=/bundle", "--pass-fd=3:3", "--pass-fd=4:4", "sandbox"}}));
}

// runsc ends when the guest's first program has been started, and leaves two processes behind: the guest's
// kernel and its gofer.
void Child::wait_for_runsc(pid_t runsc) {
  int status = 0;
  pid_t ended;
  do ended = ::waitpid(-1, &status, 0);
  while (ended < 0 && errno == EINTR);
  errno = ECHILD;
  if (ended != runsc) fail("a process of runsc ended at once");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  char what[sizeof report_.what];
  std::snprintf(what, sizeof what, "runsc ended with wait status %d", status);
  fail(what);
}

// A sandbox without its kernel or without its files is none: the first end is the end of all.
void Child::watch() {
  int status = 0;
  while (::waitpid(-1, &status, 0) < 0) {
    if (errno != EINTR) break;
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

// The word to go on may come from another runner than the one that started this.
void Child::restore() {
  int fifo = stand_still();
  report(0, "", 0);
  ::close(fd(Passed::kStatus));
  fds_[static_cast<std::size_t>(Passed::kStatus)] = -1;
  char byte;
  ssize_t heard;
  do heard = ::read(fifo, &byte, 1);
  while (heard < 0 && errno == EINTR);
  if (heard != 1) ::_exit(125);
  ::close(fifo);
  wait_for_runsc(start_runsc());
  go_on();
  drop_capabilities();
}

void Child::run() {
  set_title();
  join_cgroups();
  wait_for_maps();
  keep_passed(kFirstKeptFd);
  report_.released_ns = now_ns();
  become_root();
  build_root();
  report_.mounted_ns = now_ns();
  enter_root();
  report_.pivoted_ns = now_ns();
  write_bundle();
  set_limits();
  wait_for_network();
  report_.confined_ns = now_ns();
  if (restores()) {
    restore();
  } else {
    wait_for_runsc(start_runsc());
    drop_capabilities();
    report(0, "", 0);
    ::close(fd(Passed::kStatus));
  }
  watch();
}

}  // namespace

void run_child(const ChildPlan& plan) { Child(plan).run(); }

}  // namespace atl::runner::gvisor
