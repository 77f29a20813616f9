// SPDX-License-Identifier: Apache-2.0
#include "template/jail.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>

#include "base/text.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"
#include "template/confine.h"
#include "template/entry.h"

namespace atl::templates {
namespace {

constexpr std::size_t kKeptLines = 12;       // of a failed program's output, shown in the error
constexpr std::size_t kMaxLineBytes = 4096;  // longer ones are cut
constexpr int kSetupFailed = 120;            // exit status: the jail could not be built, the record says why
constexpr int kJobFailed = 121;              // exit status: the job's error is in the record

// What crosses from the jail. Read as hostile: fixed size, texts are printed through printable().
struct Record {
  std::uint8_t code;
  char word[48];
  char message[1536];
  char hint[256];
};

template <std::size_t N>
void put(char (&field)[N], std::string_view text) {
  std::size_t size = std::min(text.size(), N - 1);
  std::memcpy(field, text.data(), size);
  field[size] = '\0';
}

void send_error(int pipe, const Error& error) {
  Record record{};
  record.code = static_cast<std::uint8_t>(error.code());
  put(record.word, error.word());
  put(record.message, error.message());
  put(record.hint, error.hint());
  // One write below PIPE_BUF (4096) is atomic, pipe(7). If it fails the parent reports the exit status alone.
  [[maybe_unused]] ssize_t written = ::write(pipe, &record, sizeof record);
}

Result<void> receive_error(int pipe) {
  Record record{};
  ssize_t size = ::read(pipe, &record, sizeof record);
  if (size != static_cast<ssize_t>(sizeof record) ||
      record.code > static_cast<std::uint8_t>(Code::kCorrupt)) {
    return make_error(Code::kInternal, "the jailed child ended without saying why");
  }
  record.word[sizeof record.word - 1] = record.message[sizeof record.message - 1] = '\0';
  record.hint[sizeof record.hint - 1] = '\0';
  return Error(static_cast<Code>(record.code), printable(record.message))
      .with_word(printable(record.word))
      .with_hint(printable(record.hint));
}

Result<std::pair<sys::Fd, sys::Fd>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "create a pipe");
  return std::pair(sys::Fd(ends[0]), sys::Fd(ends[1]));
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

// A user namespace with the build's range, made by a child that lives only until its namespace is held by a
// descriptor.
Result<sys::Fd> make_user_namespace() {
  TRY(auto ready, make_pipe());
  TRY(auto release, make_pipe());
  pid_t child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    release.second.reset();
    char byte = ::unshare(CLONE_NEWUSER) == 0 ? 1 : 0;
    if (::write(ready.second.get(), &byte, 1) == 1) [[maybe_unused]]
      ssize_t size = ::read(release.first.get(), &byte, 1);
    ::_exit(0);
  }
  ready.second.reset();
  char made = 0;
  bool heard = ::read(ready.first.get(), &made, 1) == 1 && made == 1;
  std::string proc = fmt::format("/proc/{}", child);
  std::string map = fmt::format("0 {} {}", kJailUidBase, kUidCount);
  Result<void> mapped = heard ? sys::write_file(proc + "/uid_map", map)
                              : make_error(Code::kUnsupported, "this host does not allow user namespaces")
                                    .with_hint("check 'sysctl user.max_user_namespaces'");
  if (mapped.ok()) mapped = sys::write_file(proc + "/gid_map", map);
  sys::Fd space(::open((proc + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  release.second.reset();
  wait_for(child);
  TRY_VOID(std::move(mapped));
  if (!space) return Error::from_errno(errno, "open a user namespace");
  return space;
}

Result<void> step(int result, std::string_view what) {
  if (result >= 0) return success();
  return Error::from_errno(errno, what);
}

// Root of the jail: uid 0 inside, an owner of nothing outside.
Result<void> become_jail_root(int user_namespace, Network network) {
  TRY_VOID(step(::setns(user_namespace, CLONE_NEWUSER), "enter the build's user namespace"));
  TRY_VOID(step(::setgroups(0, nullptr), "drop groups"));
  TRY_VOID(step(::setresgid(0, 0, 0), "change group"));
  TRY_VOID(step(::setresuid(0, 0, 0), "change user"));
  TRY_VOID(step(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs"));
  int spaces = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  if (network == Network::kNone) spaces |= CLONE_NEWNET;
  return step(::unshare(spaces), "create the build's namespaces");
}

Result<void> show(Result<sys::Fd> mount, const std::string& path) {
  if (!mount.ok()) return std::move(mount).error();
  return sys::attach_mount(mount->get(), path);
}

// The work folder is the current directory here: it was entered as real root, so no folder above it needs to
// be open to others.
Result<void> arrange_mounts(const JailSpec& spec) {
  TRY_VOID(sys::enter_private_mount_namespace());
  TRY_VOID(show(sys::clone_mount(AT_FDCWD, "."), kJailWork));
  TRY_VOID(step(::chdir(kJailWork), "enter the work folder"));
  if (spec.view == View::kHost) {
    for (const Shown& shown : spec.shown) TRY_VOID(sys::attach_mount(shown.mount, shown.name));
    TRY_VOID(show(sys::mount_new("tmpfs", {{"mode", "1777"}}, sys::kNoSuid | sys::kNoDev), "/tmp"));
    return show(sys::mount_new("proc", {}, sys::kNoSuid | sys::kNoDev | sys::kNoExec), "/proc");
  }
  if (spec.source >= 0) TRY_VOID(sys::attach_mount(spec.source, "source"));
  TRY_VOID(step(static_cast<int>(::syscall(SYS_pivot_root, ".", ".")), "pivot into the work folder"));
  TRY_VOID(sys::unmount_lazily("."));  // the host's root, which the pivot has put on top
  return step(::chdir("/"), "enter the new root");
}

void bound_resources() {
  auto limit = [](auto resource, rlim_t value) {
    rlimit bound{value, value};
    ::setrlimit(resource, &bound);
  };
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 1024);
}

// First process of the jail's process namespace.
[[noreturn]] void run_inside(const JailSpec& spec, const std::function<Result<void>()>& job, int errors) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::umask(022);
  bound_resources();
  Result<void> ready = arrange_mounts(spec);
  if (ready.ok() && spec.view == View::kWorkOnly) ready = confine_parser();
  if (!ready.ok()) {
    send_error(errors, ready.error());
    ::_exit(kSetupFailed);
  }
  Result<void> done = job();
  if (done.ok()) ::_exit(0);
  send_error(errors, done.error());
  ::_exit(kJobFailed);
}

// The child of the host's process namespace: enters the namespaces and stays to hand on the exit status.
[[noreturn]] void run_outer(const JailSpec& spec, int space, const std::function<Result<void>()>& job,
                            int errors) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Result<void> ready = step(::chdir(spec.work.c_str()), "enter " + spec.work);
  if (ready.ok()) ready = become_jail_root(space, spec.network);
  if (!ready.ok()) {
    send_error(errors, ready.error());
    ::_exit(kSetupFailed);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user clears it, prctl(2)
  pid_t first = ::fork();
  if (first == 0) run_inside(spec, job, errors);
  int status = first < 0 ? kSetupFailed << 8 : wait_for(first);
  if (WIFSIGNALED(status)) ::_exit(128 + WTERMSIG(status));
  ::_exit(WEXITSTATUS(status));
}

struct Running {
  pid_t pid = -1;
  sys::Fd handle;  // pidfd: readable when the child has ended
  sys::Fd errors;
};

Result<Running> start(const JailSpec& spec, const std::function<Result<void>()>& job) {
  TRY(sys::Fd space, make_user_namespace());
  TRY(auto errors, make_pipe());
  pid_t child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork");
  if (child == 0) run_outer(spec, space.get(), job, errors.second.get());
  Running running;
  running.pid = child;
  TRY(running.handle, sys::open_pidfd(child));  // ours and not yet reaped, so the number still names it
  running.errors = std::move(errors.first);
  return running;
}

Result<void> outcome(int status, int errors) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return success();
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == kSetupFailed || code == kJobFailed) return receive_error(errors);
  if (code == 128 + SIGSYS) {
    return make_error(Code::kInternal,
                      "the jailed child made a system call that is not on its list and was ended");
  }
  if (code > 128) return make_error(Code::kInternal, "the jailed child was ended by signal {}", code - 128);
  return make_error(Code::kInternal, "the program ended with status {}", code);
}

// Waits for the child, at most until the limit; passes readable output to `on_output` meanwhile.
Result<void> finish(Running running, std::chrono::seconds time_limit, int output,
                    const std::function<bool()>& on_output) {
  auto deadline = std::chrono::steady_clock::now() + time_limit;
  bool open = output >= 0;
  while (true) {
    pollfd waits[2] = {{running.handle.get(), POLLIN, 0}, {open ? output : -1, POLLIN, 0}};
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    int ready = left.count() <= 0 ? 0 : ::poll(waits, 2, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      ::kill(running.pid, SIGKILL);
      wait_for(running.pid);
      return make_error(Code::kDeadline, "not done after {} s; ended", time_limit.count());
    }
    if (waits[1].revents != 0)
      open = on_output();
    else if (waits[0].revents != 0)
      break;
  }
  return outcome(wait_for(running.pid), running.errors.get());
}

// Cuts a program's output into lines. Keeps the last few for the error text.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}

  // False at the end of the output.
  bool read_from(int fd) {
    char block[4096];
    ssize_t size = ::read(fd, block, sizeof block);
    if (size <= 0) return false;
    for (char byte : std::string_view(block, static_cast<std::size_t>(size))) {
      if (byte == '\n')
        end_line();
      else if (line_.size() < kMaxLineBytes)
        line_ += byte;
    }
    return true;
  }

  std::string last() const {
    std::string text;
    for (const std::string& line : kept_) text += "\n  " + line;
    return text;
  }

 private:
  void end_line() {
    std::string line = printable(line_);
    line_.clear();
    if (line.empty()) return;
    on_line_(line);
    kept_.push_back(line);
    if (kept_.size() > kKeptLines) kept_.pop_front();
  }

  const std::function<void(std::string_view)>& on_line_;
  std::string line_;
  std::deque<std::string> kept_;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

Result<void> exec_program(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                          int output) {
  int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) {
    return Error::from_errno(errno, "set up standard input and output");
  }
  ::execve(argv[0].c_str(), pointers(argv).data(), pointers(environment).data());
  return Error::from_errno(errno, "start " + argv[0]).with_hint("run tools/setup, which installs it");
}

}  // namespace

Result<void> run_job(const JailSpec& spec, const std::function<Result<void>()>& job) {
  TRY(Running running, start(spec, job));
  return finish(std::move(running), spec.time_limit, -1, [] { return false; });
}

Result<void> run_program(const JailSpec& spec, const std::vector<std::string>& argv,
                         const std::vector<std::string>& environment,
                         const std::function<void(std::string_view line)>& on_line) {
  TRY(auto output, make_pipe());
  TRY(Running running, start(spec, [&] { return exec_program(argv, environment, output.second.get()); }));
  output.second.reset();
  Lines lines(on_line);
  int fd = output.first.get();
  Result<void> done = finish(std::move(running), spec.time_limit, fd, [&] { return lines.read_from(fd); });
  if (done.ok()) return success();
  Error error = std::move(done).error();
  std::string hint = error.hint();
  return make_error(error.code(), "{}: {}{}", argv[0], error.message(), lines.last())
      .with_hint(std::move(hint));
}

Result<sys::Fd> mapped_view(const std::string& folder) {
  TRY(sys::Fd space, make_user_namespace());
  TRY(sys::Fd view, sys::clone_mount(AT_FDCWD, folder));
  Result<void> mapped = sys::idmap_mount(view.get(), space.get());
  if (!mapped.ok()) {
    return std::move(mapped).error().context(folder).with_hint(
        "its file system cannot do that; make a tarball and use it: tar -C FOLDER -cf root.tar .");
  }
  TRY_VOID(sys::restrict_mount(view.get(), sys::kReadOnly | sys::kNoSuid | sys::kNoDev | sys::kNoExec));
  return view;
}

}  // namespace atl::templates
