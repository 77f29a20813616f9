// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/template_build.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include <boost/json.hpp>

#include "apps/cli/process.h"
#include "base/text.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxLine = 64 * 1024;

struct Builder {
  pid_t pid = -1;
  sys::Fd output;
};

Result<Builder> start_builder(const std::string& program, const std::vector<std::string>& arguments,
                              const std::string& log_path) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  std::string json_flag = "--json-progress";
  argv.push_back(json_flag.data());
  argv.push_back(nullptr);
  TRY(sys::Fd log, sys::open_file(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0640));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "make a pipe");
  sys::Fd read_end(ends[0]), write_end(ends[1]);
  pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork " + program);
  if (child == 0) {
    // A build that nobody hears of any more ends; one that was killed is begun anew.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(write_end.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return Builder{child, std::move(read_end)};
}

// What one line of the builder says; the last "done" or "error" is the outcome.
void take_line(std::string_view line, const OnProgress& on_progress,
               std::optional<Result<BuildResult>>& outcome) {
  boost::system::error_code failure;
  json::value value = json::parse(line, failure);
  if (failure) return;
  std::string event = text_at(value, "event");
  if (event == "progress") on_progress(static_cast<int>(number_at(value, "percent")), text_at(value, "text"));
  if (event == "done") {
    outcome = BuildResult{text_at(value, "build"), flag_at(value, "cached"),
                          static_cast<std::uint64_t>(number_at(value, "sizeBytes")),
                          static_cast<std::uint64_t>(number_at(value, "memoryMB"))};
  }
  if (event == "error") {
    outcome = Error(Code::kInternal, text_at(value, "message"))
                  .with_word(text_at(value, "code"))
                  .with_hint(text_at(value, "hint"));
  }
}

// What control has of a template and of a build.
struct Known {
  bool same_name = false;
  bool same_build = false;  // it is what the name points to
};

Known look_for(const json::value& answer, const std::string& name, const std::string& build) {
  Known known;
  const json::value* list = find_at(answer, "templates");
  if (list == nullptr || !list->is_array()) return known;
  for (const json::value& row : list->as_array()) {
    const json::value* aliases = find_at(row, "aliases");
    bool same_name = aliases != nullptr && aliases->is_array() && !aliases->as_array().empty() &&
                     aliases->as_array().front() == json::value(name);
    known.same_name = known.same_name || same_name;
    known.same_build = known.same_build || (same_name && text_at(row, "buildID") == build);
  }
  return known;
}

json::object what_is_asked(const Registration& registration) {
  json::object body;
  if (registration.ready) body["poolSize"] = *registration.ready;
  if (!registration.user.empty()) body["user"] = registration.user;
  if (!registration.workdir.empty()) body["workdir"] = registration.workdir;
  if (!registration.environment.empty()) body["envs"] = json::value_from(registration.environment);
  if (registration.memory_mib > 0) body["memoryMB"] = registration.memory_mib;
  if (registration.disk_mib > 0) body["diskMB"] = registration.disk_mib;
  if (registration.idle_timeout) body["idleTimeout"] = registration.idle_timeout->count();
  if (registration.cpu_millis > 0) body["cpuMillis"] = registration.cpu_millis;
  put_isolation(body, registration.isolation);
  return body;
}

}  // namespace

Result<BuildResult> run_builder(const std::vector<std::string>& arguments, const std::string& log_path,
                                const OnProgress& on_progress) {
  TRY(std::string program, find_daemon("atoll-template"));
  TRY(Builder builder, start_builder(program, arguments, log_path));
  std::optional<Result<BuildResult>> outcome;
  std::string pending;
  char block[4096];
  for (;;) {
    ssize_t n = ::read(builder.output.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    pending.append(block, static_cast<std::size_t>(n));
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      take_line(std::string_view(pending).substr(0, end), on_progress, outcome);
    }
    if (pending.size() > kMaxLine) pending.clear();
  }
  int status = 0;
  while (::waitpid(builder.pid, &status, 0) < 0 && errno == EINTR) {}
  if (outcome) return std::move(*outcome);
  return make_error(Code::kInternal, "the template builder ended without a result (wait status {})", status)
      .with_hint("see " + log_path);
}

std::vector<std::string> build_lines(const json::value& answer) {
  std::vector<std::string> lines;
  const json::value* builds = find_at(answer, "builds");
  if (builds == nullptr || !builds->is_array()) return lines;
  for (const json::value& build : builds->as_array()) {
    std::string name = printable(text_at(build, "name")), text = printable(text_at(build, "text"));
    std::string state = text_at(build, "state");
    if (state == "building")
      lines.push_back(fmt::format("{} is being built: {} % ({})", name, number_at(build, "percent"), text));
    else if (state == "failed")
      lines.push_back(fmt::format("{} could not be built: {}; who asks after {} has it tried again", name,
                                  text, printable(text_at(build, "notBefore"))));
    else if (number_at(build, "brokenOff") > 0)
      lines.push_back(fmt::format("{} is asked for; its build was broken off at {} % ({})", name,
                                  number_at(build, "percent"), text));
    else
      lines.push_back(fmt::format("{} is asked for, and its build has not begun", name));
  }
  return lines;
}

Task<Result<bool>> register_build(std::shared_ptr<ApiClient> api, Registration registration,
                                  std::string build) {
  CO_TRY(ApiReply known, co_await api->call("GET", "/v1/templates"));
  Known here = look_for(known.body, registration.name, build);
  json::object body = what_is_asked(registration);
  bool nothing_asked = body.empty();
  if (here.same_build && nothing_asked && registration.replace) co_return false;
  if (!here.same_build && registration.memory_mib == 0 && registration.first_memory_mib > 0)
    body["memoryMB"] = registration.first_memory_mib;
  if (!here.same_build) body["public"] = true;
  if (!here.same_name && !registration.ready) body["poolSize"] = registration.first_ready;
  if (!registration.replace) body["replace"] = false;
  body["name"] = registration.name;
  body["buildId"] = build;
  json::value request = std::move(body);
  CO_TRY_VOID(co_await api->call("POST", "/v1/templates", std::move(request)));
  co_return true;
}

}  // namespace atl::cli
