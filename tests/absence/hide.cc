// SPDX-License-Identifier: Apache-2.0
//
// absence_hide [rule...] -- program [argument...]
//
// Runs a program on a host that seems to lack something. What is hidden stays hidden from all that the
// program starts. The program's end is ours, and SIGTERM is passed on.
//
//   --errno CALL NUMBER              the call fails
//   --flag CALL ARG MASK NUMBER      it fails when one of these bits of the argument is set
//   --struct CALL ARG MASK NUMBER    the same of the 64-bit number that the argument points to
//   --text CALL ARG TEXT NUMBER      it fails when TEXT is in the first 256 bytes that the argument points to
//   --message TEXT NUMBER            sendmsg and sendto fail when TEXT is in the message; "%00" is a zero
//   byte
//   --mask PATH                      /dev/null stands there instead
//   --unmount PATH                   what is mounted there is gone
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kText = 256;
constexpr std::size_t kMessage = 64 * 1024;
constexpr std::size_t kMostParts = 64;

// A rule that needs a look into the caller's memory.
struct Look {
  enum class Kind { kText, kStruct, kMessage } kind;
  int call;
  unsigned argument;
  std::string text;
  std::uint64_t mask;
  int number;
};

struct Plan {
  std::vector<Look> looks;
  std::vector<std::string> masks, unmounts;
  std::vector<char*> program;
  scmp_filter_ctx filter = nullptr;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "absence_hide: %s: %s\n", what, std::strerror(errno));
  std::_Exit(125);
}

int call_number(const std::string& name) {
  int number = seccomp_syscall_resolve_name(name.c_str());
  if (number == __NR_SCMP_ERROR) {
    errno = EINVAL;
    die(name.c_str());
  }
  return number;
}

std::string decoded(std::string text) {
  for (std::size_t at; (at = text.find("%00")) != std::string::npos;) text.replace(at, 3, 1, '\0');
  return text;
}

void add(Plan& plan, std::uint32_t action, int call, std::vector<scmp_arg_cmp> tests = {}) {
  int failed =
      seccomp_rule_add_array(plan.filter, action, call, static_cast<unsigned>(tests.size()), tests.data());
  if (failed == 0 || failed == -EEXIST) return;
  errno = -failed;
  die("add a rule");
}

void look(Plan& plan, Look rule) {
  add(plan, SCMP_ACT_NOTIFY, rule.call);
  plan.looks.push_back(std::move(rule));
}

// Any one of the bits: one rule for each.
void refuse_flags(Plan& plan, int call, unsigned argument, std::uint64_t mask, int number) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    std::uint64_t one = std::uint64_t{1} << bit;
    if ((mask & one) == 0) continue;
    add(plan, SCMP_ACT_ERRNO(static_cast<unsigned>(number)), call,
        {scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, one, one}});
  }
}

Plan parse(int argc, char** argv) {
  Plan plan;
  plan.filter = seccomp_init(SCMP_ACT_ALLOW);
  // Without no_new_privs, which would stay with the sandboxes.
  if (plan.filter == nullptr || seccomp_attr_set(plan.filter, SCMP_FLTATR_CTL_NNP, 0) != 0)
    die("make a filter");
  int at = 1;
  auto next = [&]() -> std::string {
    if (at >= argc) {
      errno = EINVAL;
      die("a rule is cut off");
    }
    return argv[at++];
  };
  auto number = [&] { return std::strtoull(next().c_str(), nullptr, 0); };
  auto error = [&] { return static_cast<int>(number()); };
  while (at < argc && std::strcmp(argv[at], "--") != 0) {
    std::string kind = next();
    if (kind == "--mask") {
      plan.masks.push_back(next());
    } else if (kind == "--unmount") {
      plan.unmounts.push_back(next());
    } else if (kind == "--message") {
      std::string text = decoded(next());
      int fails = error();
      for (const char* call : {"sendmsg", "sendto"})
        look(plan, {Look::Kind::kMessage, call_number(call), 1, text, 0, fails});
    } else if (kind == "--errno") {
      int call = call_number(next());
      add(plan, SCMP_ACT_ERRNO(static_cast<unsigned>(error())), call);
    } else {
      int call = call_number(next());
      auto argument = static_cast<unsigned>(number());
      if (kind == "--text") {
        std::string text = decoded(next());
        look(plan, {Look::Kind::kText, call, argument, text, 0, error()});
      } else {
        std::uint64_t mask = number();
        int fails = error();
        if (kind == "--struct")
          look(plan, {Look::Kind::kStruct, call, argument, "", mask, fails});
        else
          refuse_flags(plan, call, argument, mask, fails);
      }
    }
  }
  plan.program.assign(argv + std::min(at + 1, argc), argv + argc);
  plan.program.push_back(nullptr);
  if (plan.program.size() < 2) {
    errno = EINVAL;
    die("no program");
  }
  return plan;
}

void hide_files(const Plan& plan) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    die("make a mount namespace");
  for (const std::string& path : plan.masks) {
    if (::access(path.c_str(), F_OK) == 0 &&
        ::mount("/dev/null", path.c_str(), nullptr, MS_BIND, nullptr) != 0)
      die(path.c_str());
  }
  for (const std::string& path : plan.unmounts) {
    if (::umount2(path.c_str(), MNT_DETACH) != 0 && errno != EINVAL && errno != ENOENT) die(path.c_str());
  }
}

std::string memory_at(pid_t pid, std::uint64_t address, std::size_t most) {
  std::string out(most, '\0');
  std::size_t have = 0;
  // Page by page, since what follows the last one may not be there.
  while (have < most) {
    std::size_t step = std::min<std::size_t>(most - have, 4096 - (address + have) % 4096);
    iovec mine{out.data() + have, step}, theirs{reinterpret_cast<void*>(address + have), step};
    if (::process_vm_readv(pid, &mine, 1, &theirs, 1, 0) != static_cast<ssize_t>(step)) break;
    have += step;
  }
  out.resize(have);
  return out;
}

std::string message_of(const seccomp_notif& request) {
  auto pid = static_cast<pid_t>(request.pid);
  if (request.data.nr == SYS_sendto)
    return memory_at(pid, request.data.args[1], std::min<std::size_t>(request.data.args[2], kMessage));
  msghdr head{};
  std::string raw = memory_at(pid, request.data.args[1], sizeof head);
  if (raw.size() != sizeof head) return {};
  std::memcpy(&head, raw.data(), sizeof head);
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(head.msg_iovlen, kMostParts); ++i) {
    iovec part{};
    raw = memory_at(pid, reinterpret_cast<std::uint64_t>(head.msg_iov + i), sizeof part);
    if (raw.size() != sizeof part) break;
    std::memcpy(&part, raw.data(), sizeof part);
    out += memory_at(pid, reinterpret_cast<std::uint64_t>(part.iov_base), std::min(part.iov_len, kMessage));
  }
  return out;
}

bool hits(const Look& rule, const seccomp_notif& request) {
  if (rule.call != request.data.nr) return false;
  std::uint64_t address = request.data.args[rule.argument];
  if (rule.kind == Look::Kind::kMessage) return message_of(request).find(rule.text) != std::string::npos;
  std::string text = memory_at(static_cast<pid_t>(request.pid), address, kText);
  if (rule.kind == Look::Kind::kText) {
    // A zero byte in the rule is meant; otherwise the text ends at the first one.
    if (rule.text.find('\0') == std::string::npos)
      text.resize(std::min(text.size(), std::strlen(text.c_str())));
    return text.find(rule.text) != std::string::npos;
  }
  std::uint64_t value = 0;
  if (text.size() < sizeof value) return false;
  std::memcpy(&value, text.data(), sizeof value);
  return (value & rule.mask) != 0;
}

void answer_one(const Plan& plan, int listener) {
  seccomp_notif request{};
  if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) return;
  seccomp_notif_resp response{};
  response.id = request.id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  auto rule = std::find_if(plan.looks.begin(), plan.looks.end(),
                           [&](const Look& each) { return hits(each, request); });
  if (rule != plan.looks.end()) {
    response.flags = 0;
    response.error = -rule->number;
  }
  ::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

// Until nobody is left to whom the filter belongs.
void serve(const Plan& plan, int listener) {
  for (;;) {
    pollfd item{listener, POLLIN, 0};
    if (::poll(&item, 1, -1) < 0 && errno != EINTR) return;
    if ((item.revents & POLLIN) != 0)
      answer_one(plan, listener);
    else if ((item.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
      return;
  }
}

[[noreturn]] void become(Plan& plan, int tell, int go) {
  hide_files(plan);
  int failed = seccomp_load(plan.filter);
  int listener = plan.looks.empty() ? -1 : seccomp_notify_fd(plan.filter);
  errno = -failed;
  if (failed != 0) die("install the filter");
  char byte = 0;
  if (::write(tell, &listener, sizeof listener) != sizeof listener || ::read(go, &byte, 1) != 1)
    std::_Exit(125);
  ::close(listener);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::execvp(plan.program[0], plan.program.data());
  die(plan.program[0]);
}

pid_t child = -1;
void pass_on(int number) { ::kill(child, number); }

}  // namespace

int main(int argc, char** argv) {
  Plan plan = parse(argc, argv);
  int tell[2], go[2];
  if (::pipe2(tell, O_CLOEXEC) != 0 || ::pipe2(go, O_CLOEXEC) != 0) die("make a pipe");
  child = ::fork();
  if (child < 0) die("fork");
  if (child == 0) become(plan, tell[1], go[0]);
  ::close(tell[1]);
  int theirs = -1;
  if (::read(tell[0], &theirs, sizeof theirs) != sizeof theirs) die("hear of the filter");
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  int listener = theirs < 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, theirs, 0));
  if (theirs >= 0 && listener < 0) die("take the listener");
  struct sigaction action{};
  action.sa_handler = pass_on;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  if (::write(go[1], "x", 1) != 1) die("let it go");
  pid_t watcher = -1;
  if (listener >= 0) {
    // Outlives us: the program's children go on after its end, and without a listener their calls would fail.
    // It ends when the last of them does.
    watcher = ::fork();
    if (watcher == 0) {
      ::setsid();
      ::signal(SIGTERM, SIG_IGN);
      serve(plan, listener);
      std::_Exit(0);
    }
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
