// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/visit.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "runner/gvisor/memory_files.h"
#include "runner/gvisor/runsc.h"

namespace atl::runner::gvisor {
namespace {

// Above those that runsc is given.
constexpr int kFirstKeptFd = 8;
constexpr unsigned kLongest = 30;  // seconds of a visit
// What runsc says when a process holds what has no name any more (pkg/sentry/fsimpl/gofer, 20240729).
constexpr char kNamelessWords[] = "deleted and invalidated dentries";

class Visitor : ChildSteps {
 public:
  explicit Visitor(const ChildPlan& plan) : ChildSteps(plan) {}
  [[noreturn]] void run();

 private:
  void join_groups();
  void enter();
  void hold_back();
  void stand_still();
  const char* go_on();
  const char* write_memory();
  bool tell_done();
  [[noreturn]] void save();
  bool said(const char* words);
  bool call(std::initializer_list<const char*> arguments);
};

void Visitor::join_groups() {
  for (Passed which : {Passed::kTasks0, Passed::kTasks1, Passed::kTasks2, Passed::kTasks3}) {
    if (fd(which) >= 0 && ::write(fd(which), "0", 1) != 1) fail("join a cgroup");
  }
}

// KERNEL: all in one call, so that the right to look at PID 1 is judged by what this process was before it
// joined the sandbox's user namespace (setns(2)).
void Visitor::enter() {
  constexpr int kAll =
      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  check(::setns(fd(Passed::kHost), kAll), "enter the sandbox");
  check(::chdir("/"), "enter /");
  become_root();
}

// It outlives the launcher, and the runner, for as long as it takes to let the sandbox go on; a new runner
// waits for the lock that this holds. But not for ever: then its runsc ends with it.
void Visitor::hold_back() {
  const rlimit none{0, 0};
  check(::setrlimit(RLIMIT_CORE, &none), "forbid core files");
  ::signal(SIGPIPE, SIG_IGN);
  ::alarm(kLongest);
  drop_capabilities();
}

bool Visitor::call(std::initializer_list<const char*> arguments) {
  pid_t runsc = ::fork();
  check(runsc, "fork for runsc");
  if (runsc == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunscCall what{.program = fd(Passed::kProgram),
                   .log = fd(Passed::kLog),
                   .first_free = kFirstKeptFd + static_cast<int>(kPassedCount),
                   .arguments = arguments};
    exec_runsc(what);
    ::_exit(127);
  }
  int status = 0;
  pid_t ended;
  do ended = ::waitpid(runsc, &status, 0);
  while (ended < 0 && errno == EINTR);
  return ended == runsc && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Whether runsc has said this; what it says holds words of the guest, so it is read here, without any right.
bool Visitor::said(const char* words) {
  char text[64 * 1024];
  ssize_t size = ::pread(fd(Passed::kLog), text, sizeof text, 0);
  return size > 0 && ::memmem(text, static_cast<std::size_t>(size), words, std::strlen(words)) != nullptr;
}

void Visitor::stand_still() {
  int mark = ::open(kStillMark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  check(mark, "mark that it stands still");
  ::close(mark);
  if (call({"pause", "sandbox"})) return;
  errno = EIO;
  fail("runsc pause");
}

// Returns the step that failed, with errno. Where the mark is gone, another visit has done it.
const char* Visitor::go_on() {
  if (const char* failed = remove_written()) return failed;
  bool done = call({"resume", "sandbox"});
  bool marked = ::access(kStillMark, F_OK) == 0;
  errno = EIO;
  if (!done && marked) return "runsc resume";
  return ::unlink(kStillMark) == 0 || errno == ENOENT ? nullptr : "unmark that it stands still";
}

// A write that fails in the middle leaves the guest's own connections broken, so it is not tried where there
// may be too little room.
const char* Visitor::write_memory() {
  struct statvfs disk{};
  if (::statvfs("/disk", &disk) != 0) return "ask for the room on the disk";
  bool fits = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize >= plan_.order.memory_bytes;
  errno = kNoRoom;
  if (!fits) return "memory does not fit on the disk";
  if (const char* failed = remove_written()) return failed;
  if (::mkdir(kWrittenMemory, 0700) != 0) return "make the folder for memory";
  bool done =
      call({"checkpoint", "--image-path=/disk/memory", "--compression=none", "--leave-running", "sandbox"});
  errno = said(kNamelessWords) ? kNamelessFile : EIO;
  return done ? nullptr : "runsc checkpoint";
}

// What nobody is told of has not happened.
bool Visitor::tell_done() {
  report_.error = 0;
  return ::write(fd(Passed::kStatus), &report_, sizeof report_) == sizeof report_;
}

void Visitor::save() {
  stand_still();
  char byte;
  bool wanted = tell_done() && ::read(fd(Passed::kGo), &byte, 1) == 1;
  const char* failed = wanted ? write_memory() : nullptr;
  if (wanted && failed == nullptr && tell_done()) ::_exit(0);
  int why = errno;
  if (const char* worse = go_on()) fail(worse);
  errno = why;
  if (failed != nullptr) fail(failed);
  ::_exit(0);
}

void Visitor::run() {
  ::prctl(PR_SET_NAME, "atoll-visit");
  join_groups();
  keep_passed(kFirstKeptFd);
  enter();
  hold_back();
  if (static_cast<Command>(plan_.order.command) == Command::kSave) save();
  if (const char* failed = go_on()) fail(failed);
  report(0, "", 0);
  ::_exit(0);
}

}  // namespace

void run_visit(const ChildPlan& plan) { Visitor(plan).run(); }

}  // namespace atl::runner::gvisor
