// SPDX-License-Identifier: Apache-2.0
//
// The agent (pid 1) and other processes as targets (K04, K14, R08, R09, I01).
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "probe.h"

namespace atl::escape {
namespace {

// The address range of a process's first writable mapping, from its maps.
bool first_writable(int pid, std::uint64_t& from, std::uint64_t& to) {
  std::string maps = read_text(("/proc/" + std::to_string(pid) + "/maps").c_str(), 65536);
  std::size_t at = maps.find(" rw");
  if (at == std::string::npos) return false;
  std::size_t line = maps.rfind('\n', at) + 1;
  char* end = nullptr;
  from = std::strtoull(maps.c_str() + line, &end, 16);
  to = std::strtoull(end + 1, nullptr, 16);
  return to > from;
}

// Searches the writable memory of a process for the needle, by /proc/<pid>/mem.
Outcome search_memory(int pid, const Args& args) {
  std::string maps = read_text(("/proc/" + std::to_string(pid) + "/maps").c_str(), 1 << 20);
  long fd =
      raw(SYS_openat, AT_FDCWD, ("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return blocked(errno, "open mem");
  std::string found;
  std::size_t line = 0;
  bool any = false;
  while (line < maps.size()) {
    char* end = nullptr;
    std::uint64_t from = std::strtoull(maps.c_str() + line, &end, 16);
    std::uint64_t to = std::strtoull(end + 1, &end, 16);
    bool writable = end[1] == 'r' && end[2] == 'w';
    if (writable && to - from <= (64u << 20)) {
      std::string data(to - from, '\0');
      long n = raw(SYS_pread64, fd, data.data(), data.size(), from);
      if (n > 0) {
        any = true;
        found += find_needle(std::string_view(data.data(), static_cast<std::size_t>(n)), arg(args, "needle"));
        if (!arg(args, "memory_prefix").empty())
          found += find_needle(std::string_view(data.data(), static_cast<std::size_t>(n)),
                               arg(args, "memory_prefix"));
      }
    }
    std::size_t next = maps.find('\n', line);
    if (next == std::string::npos) break;
    line = next + 1;
  }
  return any ? reached("memory is readable " + found) : blocked(errno, "no page could be read");
}

// The victim's pid as the probes see it; pid 1 unless told.
int agent(const Args& args) { return arg(args, "agent_pid").empty() ? 1 : int_arg(args, "agent_pid"); }

std::string agent_path(const Args& args, const char* file) {
  return "/proc/" + std::to_string(agent(args)) + "/" + file;
}

Outcome agent_file(const Args& args, const char* file) {
  std::string text = read_text(agent_path(args, file).c_str(), 4096);
  return text.empty() ? blocked(errno) : reached(text);
}

Outcome agent_link(const Args& args, const char* file) {
  char target[256] = {};
  long n = raw(SYS_readlinkat, AT_FDCWD, agent_path(args, file).c_str(), target, sizeof target - 1);
  return n < 0 ? blocked(errno) : reached(target);
}

Outcome trace(int pid) {
  long result = raw(SYS_ptrace, PTRACE_SEIZE, pid, 0, 0);
  int error = errno;
  if (result == 0) raw(SYS_ptrace, PTRACE_DETACH, pid, 0, 0);
  errno = error;
  return judge(result);
}

Outcome vm_copy(int pid, bool write) {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  if (!first_writable(pid, from, to)) from = 0x400000;
  char byte[8] = {};
  iovec local{byte, 1};
  iovec remote{reinterpret_cast<void*>(from), 1};
  if (!write) return judge(raw(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0), {EFAULT});
  // Writes back the byte that is there.
  if (raw(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) < 0 && errno != EFAULT) return blocked(errno);
  return judge(raw(SYS_process_vm_writev, pid, &local, 1, &remote, 1, 0), {EFAULT});
}

Outcome steal_descriptor(const Args& args) {
  long process = raw(SYS_pidfd_open, agent(args), 0);
  if (process < 0) return blocked(errno, "pidfd_open");
  Outcome last = blocked(EBADF);
  for (int fd = 0; fd < 16; ++fd) {
    long mine = raw(SYS_pidfd_getfd, process, fd, 0);
    if (mine >= 0) return reached("took descriptor " + std::to_string(fd));
    last = blocked(errno, "pidfd_getfd");
  }
  return last;
}

Outcome open_agent_descriptor(const Args& args) {
  int error = ENOENT;
  for (int fd = 0; fd < 32; ++fd) {
    std::string path = agent_path(args, "fd/") + std::to_string(fd);
    long mine = raw(SYS_openat, AT_FDCWD, path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
    if (mine >= 0) return reached("opened " + path);
    if (errno != ENOENT) error = errno;
  }
  return blocked(error);
}

Outcome change_agent_limits(const Args& args) {
  rlimit now{};
  if (raw(SYS_prlimit64, agent(args), 7, nullptr, &now) < 0) return blocked(errno, "read");
  rlimit lower{now.rlim_cur, now.rlim_cur};
  return judge(raw(SYS_prlimit64, agent(args), 7, &lower, nullptr));
}

// A process of another user that the harness started in the same sandbox.
Outcome trace_peer(const Args& args) {
  int pid = int_arg(args, "peer_pid");
  return pid <= 0 ? blocked(ESRCH, "no peer given") : trace(pid);
}

Outcome peer_memory(const Args& args) {
  int pid = int_arg(args, "peer_pid");
  return pid <= 0 ? blocked(ESRCH, "no peer given") : search_memory(pid, args);
}

Outcome signal_host_victim(const Args& args) {
  // The victim's pid in the host's namespace. A process of that number inside, if any, is not it: the harness
  // looks.
  return judge(raw(SYS_kill, int_arg(args, "victim_pid"), SIGUSR1));
}

Outcome kill_agent(const Args& args, int number) {
  long result = raw(SYS_kill, agent(args), number);
  return result < 0 ? blocked(errno) : reached("signal accepted; whether it acted is seen from outside");
}

// --- being the agent
// -------------------------------------------------------------------------------------------

Outcome bind_agent_port(const Args& args, const char* address) {
  long fd = raw(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  raw(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  raw(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(
      static_cast<std::uint16_t>(arg(args, "agent_port").empty() ? 49983 : int_arg(args, "agent_port")));
  where.sin_addr.s_addr = ::inet_addr(address);
  if (raw(SYS_bind, fd, &where, sizeof where) < 0) return blocked(errno, "bind");
  return judge(raw(SYS_listen, fd, 1));
}

// A request to an internal path of the agent, from inside, without its token.
Outcome internal_call(const Args& args, const char* request) {
  long fd = raw(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(
      static_cast<std::uint16_t>(arg(args, "agent_port").empty() ? 49983 : int_arg(args, "agent_port")));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (raw(SYS_connect, fd, &where, sizeof where) < 0) return blocked(errno, "connect");
  std::string text = request;
  raw(SYS_write, fd, text.data(), text.size());
  char answer[512] = {};
  long n = raw(SYS_read, fd, answer, sizeof answer - 1);
  if (n <= 0) return blocked(errno, "no answer");
  bool success = std::strncmp(answer, "HTTP/1.1 2", 10) == 0;
  return {success, 0, std::string(answer, static_cast<std::size_t>(n < 100 ? n : 100))};
}

#define INTERNAL_PROBE(id, path, header)                                                               \
  Probe {                                                                                              \
    id, "call " path " of the agent from inside", [](const Args& args) {                               \
      return internal_call(                                                                            \
          args, "POST " path " HTTP/1.1\r\nHost: localhost\r\n" header                                 \
                "Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"); \
    }                                                                                                  \
  }

constexpr Probe kProbes[] = {
    {"K04.root", "read pid 1's root link", [](const Args& args) { return agent_link(args, "root"); }},
    {"K04.environ", "read pid 1's environment", [](const Args& args) { return agent_file(args, "environ"); }},
    {"K04.maps", "read pid 1's memory map", [](const Args& args) { return agent_file(args, "maps"); }},
    {"K04.ns", "read pid 1's namespace links", [](const Args& args) { return agent_link(args, "ns/mnt"); }},
    {"K04.auxv", "read pid 1's auxiliary vector", [](const Args& args) { return agent_file(args, "auxv"); }},
    {"K04.stack", "read pid 1's kernel stack", [](const Args& args) { return agent_file(args, "stack"); }},
    {"K04.fd", "open a descriptor of pid 1", open_agent_descriptor},

    {"K14.trace_agent", "trace pid 1", [](const Args& args) { return trace(agent(args)); }},
    {"K14.trace_peer", "trace a process of another user", trace_peer},
    {"K14.agent_memory", "search the memory of pid 1 for secrets",
     [](const Args& args) { return search_memory(agent(args), args); }},
    {"K14.peer_memory", "search the memory of a process of another user", peer_memory},
    {"K14.agent_readv", "process_vm_readv of pid 1",
     [](const Args& args) { return vm_copy(agent(args), false); }},
    {"K14.agent_writev", "process_vm_writev of pid 1",
     [](const Args& args) { return vm_copy(agent(args), true); }},
    {"K14.agent_getfd", "pidfd_getfd of pid 1", steal_descriptor},
    {"K14.agent_limits", "change the limits of pid 1", change_agent_limits},
    {"K14.kcmp", "kcmp with pid 1",
     [](const Args& args) { return judge(raw(SYS_kcmp, raw(SYS_getpid), agent(args), 1, 0, 0)); }},

    {"R09.host_victim", "signal a process of the host", signal_host_victim},
    {"R09.kill_agent", "SIGKILL to pid 1", [](const Args& args) { return kill_agent(args, SIGKILL); }},
    {"R09.stop_agent", "SIGSTOP to pid 1", [](const Args& args) { return kill_agent(args, SIGSTOP); }},
    {"R09.segv_agent", "SIGSEGV to pid 1", [](const Args& args) { return kill_agent(args, SIGSEGV); }},

    {"I01.bind_any", "listen on the agent's port",
     [](const Args& args) { return bind_agent_port(args, "0.0.0.0"); }},
    {"I01.bind_loopback", "listen on the agent's port of loopback",
     [](const Args& args) { return bind_agent_port(args, "127.0.0.1"); }},
    {"I01.bind_address", "listen on the agent's port of the link's address",
     [](const Args& args) { return bind_agent_port(args, arg(args, "own_address").c_str()); }},
    INTERNAL_PROBE("I01.init", "/init", ""),
    INTERNAL_PROBE("I01.init_empty_token", "/init", "X-Atoll-Internal: \r\n"),
    INTERNAL_PROBE("I01.init_zero_token", "/init",
                   "X-Atoll-Internal: 0000000000000000000000000000000000000000000000000000000000000000\r\n"),
    INTERNAL_PROBE("I01.freeze", "/freeze", ""),
};

}  // namespace

std::span<const Probe> process_probes() { return kProbes; }

}  // namespace atl::escape
