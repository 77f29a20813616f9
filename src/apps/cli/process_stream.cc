// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>

#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/guest_client.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr Steady::duration kReconnectLimit = std::chrono::seconds(60);  // control may be restarting
constexpr auto kKeepaliveSeconds = 10;
constexpr Steady::duration kSilence =
    std::chrono::seconds(35);  // three keepalives missed: the connection is dead
constexpr std::size_t kReadBlock = 64 * 1024;

// `outcome` is the guest daemon's own word (proto/guest.md); -1 as exit code means a signal, as E2B's daemon
// has it.
ProcessEnd end_of(const json::value& value) {
  ProcessEnd end;
  end.exit_code = static_cast<int>(number_at(value, "exitCode"));
  end.message = printable(text_at(value, "error"));
  const json::value* typed = find_at(value, "outcome");
  std::string kind = typed != nullptr ? text_at(*typed, "kind") : "";
  end.signal = typed != nullptr ? static_cast<int>(number_at(*typed, "signal")) : 0;
  using How = ProcessEnd::How;
  if (kind == "timed_out")
    end.how = How::kTimedOut;
  else if (kind == "out_of_memory")
    end.how = How::kOutOfMemory;
  else if (kind == "killed")
    end.how = How::kKilled;
  else if (kind == "signalled" || end.exit_code < 0)
    end.how = How::kSignalled;
  else
    end.how = How::kExited;
  return end;
}

const char* signal_name(int number) {
  switch (number) {
    case SIGKILL: return "SIGNAL_SIGKILL";
    case SIGINT: return "SIGNAL_SIGINT";
    case SIGHUP: return "SIGNAL_SIGHUP";
    case SIGQUIT: return "SIGNAL_SIGQUIT";
    case SIGUSR1: return "SIGNAL_SIGUSR1";
    case SIGUSR2: return "SIGNAL_SIGUSR2";
    default: return "SIGNAL_SIGTERM";
  }
}

// Whether an error speaks of the connection and not of the process: then it is worth to try again. Ingress
// says 502 for a sandbox that is gone, in E2B's words.
bool dropped(const Error& error) {
  if (error.message().find("was not found") != std::string::npos) return false;
  return error.code() == Code::kUnavailable || error.code() == Code::kDeadline || error.sys_errno() != 0;
}

}  // namespace

int exit_status(const ProcessEnd& end) {
  switch (end.how) {
    case ProcessEnd::How::kExited: return end.exit_code & 0xff;
    case ProcessEnd::How::kTimedOut: return kExitTimedOut;
    case ProcessEnd::How::kSignalled:
    case ProcessEnd::How::kOutOfMemory:
    case ProcessEnd::How::kKilled: return kExitSignalBase + (end.signal > 0 ? end.signal : SIGKILL);
    case ProcessEnd::How::kLost: return kExitAtoll;
  }
  return kExitAtoll;
}

ProcessStream::ProcessStream(std::shared_ptr<GuestClient> guest, ProcessSpec spec)
    : guest_(std::move(guest)), spec_(std::move(spec)), tag_("atoll-" + random_hex(8)) {}

// Before the start event the pid is unknown, so the process is named by the tag that we gave it.
json::object ProcessStream::selector() const {
  if (pid_ > 0) return {{"pid", pid_}};
  return {{"tag", tag_}};
}

Task<Result<void>> ProcessStream::open_stream(std::string method, json::value body, Millis limit) {
  http::RequestHead head = guest_->request("POST", "/process.Process/" + method);
  head.headers.add("content-type", "application/connect+json");
  head.headers.add("keepalive-ping-interval", fmt::format("{}", kKeepaliveSeconds));
  if (limit.count() > 0) head.headers.add("connect-timeout-ms", fmt::format("{}", limit.count()));
  reader_ = http::connect::EnvelopeReader();
  std::string payload = http::connect::envelope(json::serialize(body));
  auto exchange = co_await guest_->post(std::move(head), std::move(payload));
  if (!exchange.ok()) co_return std::move(exchange).error();
  (*exchange)->set_idle_limit(kSilence);
  CO_TRY(http::ResponseHead answer, co_await (*exchange)->read_head());
  if (answer.status >= 400) {
    CO_TRY(std::string text, co_await (*exchange)->read_all(kMaxAnswer));
    co_return error_of_answer(answer.status, text, "sandbox " + guest_->sandbox());
  }
  exchange_ = std::move(*exchange);
  co_return success();
}

Task<Result<ProcessEvent>> ProcessStream::next() {
  if (!started_) {
    json::object process{{"cmd", spec_.command}, {"args", json::value_from(spec_.arguments)}};
    if (!spec_.environment.empty()) process["envs"] = json::value_from(spec_.environment);
    if (!spec_.directory.empty()) process["cwd"] = spec_.directory;
    json::object body{
        {"process", std::move(process)}, {"tag", tag_}, {"stdin", spec_.open_stdin}, {"offsets", true}};
    if (spec_.terminal) {
      body["pty"] =
          json::object{{"size", {{"cols", spec_.terminal->columns}, {"rows", spec_.terminal->rows}}}};
    }
    started_ = true;
    CO_TRY_VOID(co_await open_stream("Start", std::move(body), spec_.limit));
  }
  for (;;) {
    auto event = co_await step();
    if (interrupted_) co_return make_error(Code::kCancelled, "interrupted");
    if (event.ok() && event->has_value()) co_return std::move(**event);
    if (event.ok()) continue;
    if (!dropped(event.error()) || exchange_ == nullptr) co_return std::move(event).error();
    CO_TRY_VOID(co_await reconnect());
    if (interrupted_) co_return make_error(Code::kCancelled, "interrupted");
  }
}

// One read, or one envelope that is already here. An ended stream without its last frame is a dropped
// connection.
Task<Result<std::optional<ProcessEvent>>> ProcessStream::step() {
  CO_TRY(auto envelope, reader_.next());
  if (envelope) co_return take_envelope(std::move(*envelope));
  block_.resize(kReadBlock);
  auto n = co_await exchange_->read_body(block_);
  if (!n.ok()) co_return std::move(n).error();
  if (*n == 0) co_return make_error(Code::kUnavailable, "the stream ended early");
  reader_.feed(std::string_view(block_.data(), *n));
  co_return std::optional<ProcessEvent>();
}

Result<std::optional<ProcessEvent>> ProcessStream::take_envelope(
    http::connect::EnvelopeReader::Envelope envelope) {
  boost::system::error_code failure;
  json::value value = json::parse(envelope.payload, failure);
  if (failure) return make_error(Code::kCorrupt, "the sandbox sent an event that is not JSON");
  if ((envelope.flags & http::connect::kEndStream) != 0) {
    auto ended = std::move(exchange_);
    const json::value* error = find_at(value, "error");
    if (error == nullptr) return make_error(Code::kCorrupt, "the process's stream ended without its outcome");
    if (text_at(*error, "code") == "deadline_exceeded") {
      return std::optional(ProcessEvent{
          ProcessEvent::Kind::kEnded, "", {ProcessEnd::How::kTimedOut, 0, SIGKILL, "time limit"}});
    }
    if (text_at(*error, "code") == "resource_exhausted" && pid_ > 0) {
      exchange_ = std::move(ended);  // we were too slow and were cut off: come again and go on from here
      return make_error(Code::kUnavailable, "cut off");
    }
    bool unknown = text_at(*error, "code") == "not_found";
    return make_error(unknown ? Code::kNotFound : Code::kInvalid, "{}", printable(text_at(*error, "message")))
        .with_word(printable(text_at(*error, "code")));
  }
  const json::value* event = find_at(value, "event");
  if (event == nullptr) return std::optional<ProcessEvent>();
  if (const json::value* start = find_at(*event, "start")) {
    bool again = pid_ > 0;
    pid_ = number_at(*start, "pid");
    if (again) return std::optional<ProcessEvent>();
    return std::optional(ProcessEvent{ProcessEvent::Kind::kStarted, "", {}});
  }
  if (const json::value* data = find_at(*event, "data")) return take_data(*data);
  if (const json::value* end = find_at(*event, "end")) {
    return std::optional(ProcessEvent{ProcessEvent::Kind::kEnded, "", end_of(*end)});
  }
  return std::optional<ProcessEvent>();  // keepalive, or an event of a newer daemon
}

Result<std::optional<ProcessEvent>> ProcessStream::take_data(const json::value& data) {
  using Kind = ProcessEvent::Kind;
  constexpr std::pair<const char*, Kind> kChannels[] = {
      {"stdout", Kind::kStdout}, {"stderr", Kind::kStderr}, {"pty", Kind::kTerminal}};
  for (const auto& [name, kind] : kChannels) {
    const json::value* text = find_at(data, name);
    if (text == nullptr || !text->is_string()) continue;
    auto bytes = base64_decode(std::string_view(text->as_string()));
    if (!bytes) return make_error(Code::kCorrupt, "the sandbox sent output that is not base64");
    auto at = static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, number_at(data, "offset", static_cast<std::int64_t>(offset_))));
    if (at > offset_) lost_ += at - offset_;
    offset_ = at + bytes->size();
    return std::optional(ProcessEvent{kind, std::move(*bytes), {}});
  }
  return std::optional<ProcessEvent>();
}

Task<Result<void>> ProcessStream::reconnect() {
  auto give_up = Steady::now() + kReconnectLimit;
  Millis pause(50);
  for (;;) {
    exchange_.reset();
    json::object body{{"process", selector()}, {"fromOffset", fmt::format("{}", offset_)}};
    auto opened = co_await open_stream("Connect", std::move(body), Millis(0));
    if (opened.ok() || interrupted_) co_return success();
    // The API is back and says that the sandbox is gone, or the daemon says that the process is: no use to
    // try again.
    if (!dropped(opened.error()) || Steady::now() > give_up) {
      co_return std::move(opened).error().context(
          "the connection broke, and the process cannot be found again");
    }
    co_await async::sleep_for(pause);
    pause = std::min(pause * 2, Millis(1000));
  }
}

void ProcessStream::interrupt() {
  interrupted_ = true;
  if (exchange_ != nullptr) exchange_->close();
}

// Asks until there is an answer: for calls that may be repeated.
Task<Result<json::value>> ProcessStream::ask(std::string method, json::value body) {
  auto give_up = Steady::now() + kReconnectLimit;
  Millis pause(50);
  for (;;) {
    auto answer = co_await guest_->unary(method, body);
    bool again = !answer.ok() && dropped(answer.error()) && !interrupted_ && Steady::now() < give_up;
    if (!again) co_return answer;
    co_await async::sleep_for(pause);
    pause = std::min(pause * 2, Millis(1000));
  }
}

// The offset makes the call repeatable: the daemon leaves out what it has taken already.
Task<Result<void>> ProcessStream::write(std::string data) {
  json::object input;
  input[spec_.terminal ? "pty" : "stdin"] = base64_encode(data);
  json::value body = json::object({{"process", selector()},
                                   {"input", std::move(input)},
                                   {"inputOffset", fmt::format("{}", input_offset_)}});
  auto sent = co_await ask("process.Process/SendInput", std::move(body));
  if (!sent.ok()) co_return std::move(sent).error();
  input_offset_ += data.size();
  co_return success();
}

Task<Result<void>> ProcessStream::close_stdin() {
  json::value body = json::object({{"process", selector()}});
  auto closed = co_await ask("process.Process/CloseStdin", std::move(body));
  if (!closed.ok()) co_return std::move(closed).error();
  co_return success();
}

Task<Result<void>> ProcessStream::send_signal(int number) {
  json::value body = json::object({{"process", selector()}, {"signal", signal_name(number)}});
  auto sent = co_await guest_->unary("process.Process/SendSignal", std::move(body));
  if (!sent.ok()) co_return std::move(sent).error();
  co_return success();
}

Task<Result<void>> ProcessStream::resize(TerminalSize size) {
  json::object pty{{"size", {{"cols", size.columns}, {"rows", size.rows}}}};
  json::value body = json::object({{"process", selector()}, {"pty", std::move(pty)}});
  auto sent = co_await guest_->unary("process.Process/Update", std::move(body));
  if (!sent.ok()) co_return std::move(sent).error();
  co_return success();
}

}  // namespace atl::cli
