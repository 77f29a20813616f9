// SPDX-License-Identifier: Apache-2.0
//
// escape_weak [option...] -- program [argument...]
//
// A sandbox with nearly everything left open, in which every escape probe must succeed: the positive control
// of the harness. It keeps only what protects the machine from the probes: namespaces of its own for mounts,
// processes, host name and IPC. User ids, capabilities, network, devices and system calls are those of the
// caller, who is root.
//
//   --agent TEXT     start a careless agent first: it keeps TEXT in memory, may be traced, listens with
//   SO_REUSEPORT and
//                    answers 200 to every request. "agent_pid=N peer_pid=N agent_port=N" is added to the
//                    program's arguments.
//   --leak PATH      keep a descriptor of PATH open over exec
//   --uid N          become this user before the program starts; the agent does, too
//   --mount-more     make binfmt_misc, debugfs and tracefs present
//   --host-pids      stay in the caller's pid namespace
//   --lazy           do not reap orphans until the program has ended
//
// When the program has ended and the agent no longer runs, the word DIED goes to standard error.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Options {
  std::string agent;
  std::string leak;
  unsigned uid = 0;
  bool mount_more = false;
  bool host_pids = false;
  bool lazy = false;
  std::vector<char*> program;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "escape_weak: %s: %s\n", what, std::strerror(errno));
  std::_Exit(125);
}

Options parse(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    std::string name = argv[i];
    bool* flag = name == "--mount-more"  ? &options.mount_more
                 : name == "--host-pids" ? &options.host_pids
                 : name == "--lazy"      ? &options.lazy
                                         : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : "";
    if (name == "--agent")
      options.agent = value;
    else if (name == "--leak")
      options.leak = value;
    else if (name == "--uid")
      options.uid = static_cast<unsigned>(std::atoi(value));
    else {
      std::fprintf(stderr, "escape_weak: unknown option %s\n", name.c_str());
      std::exit(2);
    }
  }
  options.program.assign(argv + (i < argc ? i + 1 : argc), argv + argc);
  if (options.program.empty()) {
    std::fprintf(stderr, "escape_weak: no program\n");
    std::exit(2);
  }
  return options;
}

void become(unsigned uid) {
  if (uid == 0) return;
  if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0)
    die("setuid");
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

int listen_anywhere(int& port) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  socklen_t length = sizeof where;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&where), length) != 0 || ::listen(fd, 16) != 0) die("listen");
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&where), &length);
  port = ntohs(where.sin_port);
  return fd;
}

[[noreturn]] void run_agent(const Options& options, int listener, int ready) {
  static char kept[256];
  std::strncpy(kept, options.agent.c_str(), sizeof kept - 1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  become(options.uid);
  ::close(ready);
  for (;;) {
    int client = ::accept(listener, nullptr, nullptr);
    if (client < 0) continue;
    char request[2048];
    const char answer[] = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    if (::read(client, request, sizeof request) >= 0 && ::write(client, answer, sizeof answer - 1) >= 0)
      ::close(client);
  }
}

bool runs(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, WNOHANG | WUNTRACED) == 0;
}

// Waits for the program; on the way reaps whatever else ends, unless told not to.
int wait_for(pid_t program, pid_t agent, bool lazy) {
  int status = 0;
  bool agent_ended = false;
  for (pid_t ended = 0; ended != program;) {
    ended = ::waitpid(lazy ? program : -1, &status, 0);
    if (ended < 0) die("wait");
    if (ended == agent) agent_ended = true;
  }
  if (agent > 0 && (agent_ended || !runs(agent))) std::fprintf(stderr, "DIED\n");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// PID 1 of the new namespace: mounts, starts the agent and the program, and ends with the program.
int run_inside(Options& options) {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) die("make mounts private");
  if (!options.host_pids && ::mount("proc", "/proc", "proc", 0, nullptr) != 0) die("mount proc");
  if (options
          .mount_more) {  // where the kernel has them; the probes of the others are then reported as vacuous
    ::mount("binfmt_misc", "/proc/sys/fs/binfmt_misc", "binfmt_misc", 0, nullptr);
    ::mount("debugfs", "/sys/kernel/debug", "debugfs", 0, nullptr);
    ::mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, nullptr);
  }
  pid_t agent = 0;
  std::string pid_text;
  std::string peer_text;
  std::string port_text;
  if (!options.agent.empty()) {
    int port = 0;
    int listener = listen_anywhere(port);
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) die("pipe");
    agent = ::fork();
    if (agent == 0) {
      ::close(ready[0]);
      run_agent(options, listener, ready[1]);
    }
    ::close(listener);
    ::close(ready[1]);
    char nothing;
    while (::read(ready[0], &nothing, 1) > 0) {}  // the end comes when the agent has become who it is
    ::close(ready[0]);
    pid_text = "agent_pid=" + std::to_string(agent);
    port_text = "agent_port=" + std::to_string(port);
    peer_text = "peer_pid=" + std::to_string(agent);
    options.program.push_back(pid_text.data());
    options.program.push_back(peer_text.data());
    options.program.push_back(port_text.data());
  }
  options.program.push_back(nullptr);
  pid_t child = ::fork();
  if (child == 0) {
    if (!options.leak.empty() && ::open(options.leak.c_str(), O_RDONLY) < 0)
      die("open the descriptor to leak");
    become(options.uid);
    ::execv(options.program[0], options.program.data());
    die("exec");
  }
  return wait_for(child, agent, options.lazy);
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  if (::unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | (options.host_pids ? 0 : CLONE_NEWPID)) != 0)
    die("unshare");
  pid_t first = ::fork();
  if (first < 0) die("fork");
  if (first == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    std::_Exit(run_inside(options));
  }
  int status = 0;
  ::waitpid(first, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
