// SPDX-License-Identifier: Apache-2.0
//
// escape_probe list                     one line for each probe: id, tab, attempt
// escape_probe run [ID...] [key=value...]  runs them, prints one JSON line each; an ID may be a prefix
// ("K01") escape_probe <helper> ...             see helpers.h
//
// Each probe runs in a child of its own, in its own session, and is ended after five seconds.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "helpers.h"
#include "probe.h"

namespace atl::escape {
namespace {

constexpr int kProbeSeconds = 5;
constexpr std::size_t kMaxDetail = 16384;

struct Result {
  Outcome outcome;
  std::string note;  // how the child ended, when not by itself
};

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    char buffer[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c > 0x7e) {
      std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
      out += buffer;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

[[noreturn]] void run_child(const Probe& probe, const Args& args, int out) {
  raw(SYS_setsid);
  raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::alarm(kProbeSeconds);
  errno = 0;
  Outcome outcome = probe.run(args);
  if (outcome.detail.size() > kMaxDetail) outcome.detail.resize(kMaxDetail);
  std::string message = (outcome.reached ? "R" : "B") + std::to_string(outcome.error) + ":" + outcome.detail;
  std::size_t done = 0;
  while (done < message.size()) {
    long n = raw(SYS_write, out, message.data() + done, message.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  raw(SYS_exit_group, 0);
  for (;;) {}
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  pollfd wait{fd, POLLIN, 0};
  while (::poll(&wait, 1, (kProbeSeconds + 1) * 1000) == 1) {
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

Result collect(pid_t child, int fd) {
  std::string text = read_all(fd);
  ::kill(-child, SIGKILL);  // its whole session; it may have left processes behind
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  Result result;
  std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    result.outcome.reached = text[0] == 'R';
    result.outcome.error = std::atoi(text.c_str() + 1);
    result.outcome.detail = text.substr(colon + 1);
  } else if (WIFSIGNALED(status)) {
    int number = WTERMSIG(status);
    result.note = number == SIGSYS ? "killed_by_filter" : number == SIGALRM ? "timeout" : "killed";
    result.outcome.detail = std::string("ended by signal ") + std::to_string(number);
  } else {
    result.note = "no_answer";
  }
  return result;
}

void report(const Probe& probe, const Result& result) {
  const char* error = result.outcome.error != 0 ? ::strerrorname_np(result.outcome.error) : "";
  std::printf("{\"id\":%s,\"attempt\":%s,\"result\":\"%s\",\"errno\":\"%s\",\"note\":%s,\"detail\":%s}\n",
              quote(probe.id).c_str(), quote(probe.attempt).c_str(),
              result.outcome.reached ? "REACHED" : "BLOCKED", error != nullptr ? error : "?",
              quote(result.note).c_str(), quote(result.outcome.detail).c_str());
  std::fflush(stdout);
}

void run_probe(const Probe& probe, const Args& args) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    report(probe, {{}, "no_pipe"});
    return;
  }
  std::fflush(stdout);
  pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_child(probe, args, ends[1]);
  }
  ::close(ends[1]);
  report(probe, child < 0 ? Result{blocked(errno), "no_fork"} : collect(child, ends[0]));
  ::close(ends[0]);
}

bool wanted(const Probe& probe, const std::vector<std::string>& ids) {
  if (ids.empty()) return true;
  for (const std::string& id : ids) {
    std::size_t n = id.size();
    if (std::strncmp(probe.id, id.c_str(), n) == 0 && (probe.id[n] == 0 || probe.id[n] == '.')) return true;
  }
  return false;
}

std::vector<Probe> all_probes() {
  std::vector<Probe> all;
  for (auto group : {kernel_probes(), syscall_probes(), file_probes(), process_probes(), network_probes(),
                     resource_probes()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

int run(int argc, char** argv) {
  Args args;
  std::vector<std::string> ids;
  for (int i = 2; i < argc; ++i) {
    const char* equals = std::strchr(argv[i], '=');
    if (equals != nullptr)
      args[std::string(argv[i], static_cast<std::size_t>(equals - argv[i]))] = equals + 1;
    else
      ids.emplace_back(argv[i]);
  }
  args["self"] = argv[0];
  for (const Probe& probe : all_probes())
    if (wanted(probe, ids)) run_probe(probe, args);
  return 0;
}

}  // namespace
}  // namespace atl::escape

int main(int argc, char** argv) {
  using namespace atl::escape;
  std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "run") return run(argc, argv);
  if (verb == "list") {
    for (const Probe& probe : all_probes()) std::printf("%s\t%s\n", probe.id, probe.attempt);
    return 0;
  }
  return run_helper(verb, std::vector<std::string>(argv + 2, argv + argc));
}
