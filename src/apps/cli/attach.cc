// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/attach.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/input_pump.h"
#include "apps/cli/output.h"
#include "apps/cli/terminal.h"
#include "base/bytes.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr Steady::duration kExtendEvery = std::chrono::seconds(20);
constexpr int kExtendSeconds = 120;

// State that the tasks of one attachment share; lives until all of them have ended.
struct Attachment {
  std::shared_ptr<GuestClient> guest;
  AttachOptions options;
  std::shared_ptr<ProcessStream> stream;
  std::unique_ptr<InputPump> input;
  RawMode raw;
  async::Event ended;
  bool over = false;
  int signals_seen = 0;
  int last_signal = 0;
  bool left = false;  // by the escape sequence

  Attachment(std::shared_ptr<GuestClient> g, AttachOptions o)
      : guest(std::move(g)), options(std::move(o)), ended(guest->api().session().executor()) {}
  Session& session() { return guest->api().session(); }
};
using AttachmentPtr = std::shared_ptr<Attachment>;

void note(const Attachment& a, std::string_view text) {
  // In raw mode a line feed does not return the carriage.
  write_err(a.options.terminal ? fmt::format("\r\natoll: {}\r\n", text) : fmt::format("atoll: {}\n", text));
}

Task<> send_input(AttachmentPtr a) {
  EscapeFilter filter;
  for (;;) {
    std::string typed = co_await a->input->next();
    if (typed.empty() || a->over) break;
    if (a->options.terminal) {
      auto filtered = filter.feed(typed);
      if (filtered.leave) {
        a->left = true;
        a->stream->interrupt();
        co_return;
      }
      typed = std::move(filtered.pass);
      if (typed.empty()) continue;
    }
    auto sent = co_await a->stream->write(std::move(typed));
    if (sent.ok() || a->over) continue;
    // A command that has closed its input or has ended takes no more: that is its right.
    bool gone = sent.error().code() == Code::kNotFound || sent.error().code() == Code::kConflict ||
                sent.error().code() == Code::kInvalid;
    if (!gone) note(*a, fmt::format("input could not be delivered: {}", sent.error().message()));
    co_return;
  }
  if (a->options.terminal || a->over) co_return;
  auto closed = co_await a->stream->close_stdin();
  if (!closed.ok() && !a->over && closed.error().code() == Code::kUnavailable) {
    note(*a, fmt::format("the end of input could not be delivered: {}", closed.error().message()));
  }
}

Task<> pass_signal(AttachmentPtr a, int number) {
  auto sent = co_await a->stream->send_signal(number);
  // A sandbox that was started by an older Atoll knows only the two signals of E2B.
  bool unknown = !sent.ok() && sent.error().code() == Code::kInvalid && number != SIGTERM;
  if (unknown) sent = co_await a->stream->send_signal(SIGTERM);
  if (!sent.ok() && !a->over && sent.error().code() != Code::kNotFound) note(*a, sent.error().message());
}

Task<> kill_and_leave(AttachmentPtr a) {
  co_await pass_signal(a, SIGKILL);
  a->stream->interrupt();
}

Task<> pass_size(AttachmentPtr a) {
  auto size = terminal_size(STDIN_FILENO);
  if (!size) co_return;
  auto sent = co_await a->stream->resize(*size);
  (void)sent;  // the next change of size tries again
}

void on_signal(const AttachmentPtr& a, int number) {
  Session& session = a->session();
  if (number == SIGWINCH || number == SIGCONT) {
    if (!a->options.terminal) return;
    if (number == SIGCONT) (void)a->raw.enter();
    session.spawn("resize", pass_size(a));
    return;
  }
  if (number == SIGUSR1 || number == SIGUSR2) return session.spawn("signal", pass_signal(a, number));
  a->last_signal = number;
  if (++a->signals_seen == 1)
    session.spawn("signal", pass_signal(a, number));
  else if (a->signals_seen == 2)
    session.spawn("kill", kill_and_leave(a));
  else
    a->stream->interrupt();
}

// Pushes the sandbox's deadline on, so that it cannot fall in the middle of a command. `connect` never
// shortens it.
Task<> extend_deadline(AttachmentPtr a) {
  std::string path = "/sandboxes/" + a->guest->sandbox() + "/connect";
  while (!a->over) {
    json::value body = json::object({{"timeout", kExtendSeconds}});
    auto extended = co_await a->guest->api().call("POST", path, std::move(body));
    (void)extended;          // control may be restarting; the next round tries again
    if (a->over) co_return;  // ended while the call was under way: nobody will notify again
    co_await a->ended.wait_until(Steady::now() + kExtendEvery);
  }
}

std::string event_json(const ProcessEvent& event, const ProcessStream& stream) {
  using Kind = ProcessEvent::Kind;
  if (event.kind == Kind::kEnded) {
    json::object end{
        {"event", "end"}, {"outcome", how_name(event.end.how)}, {"exit_code", event.end.exit_code}};
    if (event.end.signal != 0) end["signal"] = event.end.signal;
    if (stream.lost_bytes() != 0) end["lost_bytes"] = stream.lost_bytes();
    return json::serialize(end) + "\n";
  }
  json::object line;
  line["event"] = event.kind == Kind::kStderr     ? "stderr"
                  : event.kind == Kind::kTerminal ? "terminal"
                                                  : "stdout";
  if (valid_utf8(event.data))
    line["text"] = event.data;
  else
    line["base64"] = base64_encode(event.data);
  return json::serialize(line) + "\n";
}

Task<Result<void>> show(AttachmentPtr a, const ProcessEvent& event) {
  if (event.kind == ProcessEvent::Kind::kEnded && !a->options.json) co_return success();
  bool to_stderr = event.kind == ProcessEvent::Kind::kStderr && !a->options.json;
  std::string text = a->options.json ? event_json(event, *a->stream) : event.data;
  int fd = to_stderr ? STDERR_FILENO : STDOUT_FILENO;
  auto write = [fd, text = std::move(text)] { return try_write(fd, text); };
  co_return co_await a->session().blocking().run(std::move(write));
}

int final_status(const Attachment& a, const ProcessEnd& end) {
  using How = ProcessEnd::How;
  if (a.last_signal != 0) return kExitSignalBase + a.last_signal;
  if (end.how == How::kTimedOut) note(a, "the time limit was reached, the command was ended");
  if (end.how == How::kOutOfMemory) note(a, "the command was ended because the sandbox ran out of memory");
  if (end.how == How::kKilled && end.signal == 0) note(a, "the command was killed");
  if (a.stream->lost_bytes() != 0) {
    note(a,
         fmt::format("{} bytes of output were lost while the connection was down", a.stream->lost_bytes()));
  }
  return exit_status(end);
}

Task<Result<int>> follow(AttachmentPtr a) {
  for (;;) {
    auto event = co_await a->stream->next();
    if (!event.ok()) {
      if (a->left) {
        note(*a, "left; what runs in the sandbox goes on");
        co_return kExitAtoll;
      }
      if (a->signals_seen > 0) co_return kExitSignalBase + a->last_signal;
      co_return std::move(event).error();
    }
    auto shown = co_await show(a, *event);
    if (!shown.ok()) {
      co_await pass_signal(a, SIGKILL);
      if (shown.error().sys_errno() != EPIPE) co_return std::move(shown).error();
      co_return kExitSignalBase + SIGPIPE;  // nobody reads any more, as with any filter
    }
    if (event->kind == ProcessEvent::Kind::kEnded) {
      a->raw.leave();
      co_return final_status(*a, event->end);
    }
  }
}

// As docker(1): 127 when there is no such command, 126 when it cannot be executed.
std::optional<int> start_failure(const Error& error) {
  if (error.message().find("no such command") != std::string::npos) return kExitNoCommand;
  bool refused = error.word() == "permission_denied" || error.word() == "invalid_argument";
  if (refused && error.message().find("start '") != std::string::npos) return kExitCannotRun;
  return std::nullopt;
}

}  // namespace

bool stdin_has_data() {
  struct stat info{};
  if (::fstat(STDIN_FILENO, &info) != 0 || is_terminal(STDIN_FILENO)) return false;
  bool null_device = S_ISCHR(info.st_mode) && major(info.st_rdev) == 1 && minor(info.st_rdev) == 3;
  return !null_device;
}

Task<Result<int>> attach(std::shared_ptr<GuestClient> guest, AttachOptions options) {
  auto a = std::make_shared<Attachment>(guest, std::move(options));
  a->options.spec.open_stdin = a->options.forward_stdin;
  auto stream = co_await guest->start(a->options.spec);
  if (!stream.ok()) {
    auto status = start_failure(stream.error());
    if (!status) co_return std::move(stream).error();
    print_error(stream.error(), a->options.json);
    co_return *status;
  }
  a->stream = std::move(*stream);
  if (a->options.terminal) CO_TRY_VOID(a->raw.enter());
  a->session().on_signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT},
                          [a](int number) { on_signal(a, number); });
  if (a->options.forward_stdin || a->options.terminal) {
    a->input = std::make_unique<InputPump>(a->session().executor(), STDIN_FILENO);
    a->session().spawn("input", send_input(a));
  }
  a->session().spawn("deadline", extend_deadline(a));
  auto status = co_await follow(a);
  a->raw.leave();
  a->over = true;
  a->ended.notify_all();
  if (a->input) a->input->stop();
  co_return status;
}

}  // namespace atl::cli
