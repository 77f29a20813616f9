// SPDX-License-Identifier: Apache-2.0
#include "guest/process_service.h"

#include <csignal>

#include "base/bytes.h"
#include "base/text.h"
#include "guest/paths.h"
#include "guest/process_request.h"
#include "http/connect_rpc.h"
#include "sys/label_guard.h"

namespace atl::guest {
namespace {

constexpr std::string_view kKeepalive = R"({"event":{"keepalive":{}}})";

// One client that reads a process's output, until its end, its own deadline, or its departure.
struct Reader {
  Subscriber subscriber;
  bool offsets = false;                        // our extension: tell where each piece is
  bool started_it = false;                     // Start: the deadline is the process's
  std::optional<Steady::time_point> deadline;  // Connect: of this stream alone
};

std::string data_event(const Ring::Piece& piece, bool with_offset) {
  std::string json = R"({"event":{"data":{")";
  json.reserve(piece.data.size() * 4 / 3 + 96);
  json += channel_name(piece.channel);
  json += "\":\"";
  json += base64_encode(piece.data);
  json += '"';
  if (with_offset) json += fmt::format(",\"offset\":\"{}\"", piece.offset);
  return json + "}}}";
}

std::string end_event(const Outcome& outcome) {
  ObjectWriter typed, end;
  typed.text("kind", outcome_name(outcome.kind));
  if (outcome.signal != 0) typed.number("signal", outcome.signal);
  if (outcome.exit_code != 0) end.number("exitCode", outcome.exit_code);
  if (outcome.signal == 0) end.boolean("exited", true);
  std::string status = status_text(outcome);
  end.text("status", status);
  if (outcome.exit_code != 0) end.text("error", status);
  end.raw("outcome", std::move(typed).finish());
  return fmt::format(R"({{"event":{{"end":{}}}}})", std::move(end).finish());
}

std::string gap_event(std::uint64_t from, std::uint64_t to) {
  return fmt::format(R"({{"event":{{"gap":{{"from":"{}","to":"{}"}}}}}})", from, to);
}

Error cut_off_error(const Subscriber& subscriber) {
  return make_error(Code::kExhausted,
                    "this client did not keep up with the output; connect again with fromOffset {}",
                    subscriber.next());
}

Error deadline_error(const Process& process) {
  return make_error(Code::kDeadline, "process {} reached the time limit of its request and was killed",
                    process.pid());
}

// Sends what there is. False when nothing was due.
Task<Result<bool>> send_output(EventStream& stream, Reader& reader) {
  Ring::Piece piece = reader.subscriber.peek();
  std::uint64_t wanted = reader.subscriber.next();
  if (piece.offset > wanted && reader.offsets) {
    std::string gap = gap_event(wanted, piece.offset);
    reader.subscriber.skip_to(piece.offset);
    CO_TRY_VOID(co_await stream.send(gap));
    co_return true;
  }
  if (piece.data.empty()) co_return false;
  // Moving on only after the write keeps the process from running ahead of this client.
  std::string event = data_event(piece, reader.offsets);
  std::size_t size = piece.data.size();
  reader.subscriber.skip_to(piece.offset);
  CO_TRY_VOID(co_await stream.send(event));
  reader.subscriber.taken(size);
  co_return true;
}

Task<> stream_process(Guest& guest, Exchange& exchange, EventStream& stream, Reader& reader) {
  Process& process = reader.subscriber.process();
  ClientWatch watch(guest.executor, exchange, [&process] { process.changed().notify_all(); });
  Rest::Stay stay(guest.rest, [&process] { process.changed().notify_all(); });
  std::string start = fmt::format(R"({{"event":{{"start":{{"pid":{}}}}}}})", process.pid());
  auto sent = co_await stream.send(start);
  std::optional<Error> failure;
  while (sent.ok() && !watch.gone()) {
    if (reader.subscriber.cut_off()) {
      failure = cut_off_error(reader.subscriber);
      break;
    }
    auto more = co_await send_output(stream, reader);
    if (!more.ok()) {
      sent = std::move(more).error();
      break;
    }
    if (*more) continue;
    if (process.outcome()) {
      if (reader.started_it && process.expired())
        failure = deadline_error(process);
      else
        sent = co_await stream.send(end_event(*process.outcome()));
      break;
    }
    if (stay.due()) {
      failure = pausing_error(
          fmt::format("resume it and connect again with fromOffset {}", reader.subscriber.next()));
      break;
    }
    if (reader.deadline && Steady::now() >= *reader.deadline) {
      failure = Error(Code::kDeadline, "the time limit of this request has passed; the process goes on");
      break;
    }
    if (Steady::now() >= stream.keepalive_due()) {
      sent = co_await stream.send_keepalive();
      continue;  // something may have happened meanwhile, and its notification has passed
    }
    auto until = stream.keepalive_due();
    if (reader.deadline) until = std::min(until, *reader.deadline);
    co_await process.changed().wait_until(until);
  }
  bool deliver = sent.ok() && !watch.gone();
  co_await watch.stop();
  if (deliver) co_await stream.end(std::move(failure));
}

// The blocking part.
Result<SpawnRequest> prepare_spawn(Guest& guest, const Settings& settings, const std::string& user_name,
                                   const StartRequest& request, LabelRight right) {
  TRY(SpawnRequest spawn, prepare_process(guest, settings, user_name, request.config, right));
  spawn.terminal = request.terminal;
  spawn.stdin_open = request.stdin_open;
  return spawn;
}

Task<Result<ProcessPtr>> start_process(Guest& guest, Exchange& exchange, StartRequest request) {
  CO_TRY(std::string user_name, basic_user(exchange.request().headers));
  CO_TRY(auto timeout, call_timeout(exchange.request().headers));
  Settings settings = guest.settings;  // the worker must not see it change
  LabelRight right = label_right(exchange.request());
  ProcessTable::Start start;
  start.config = request.config;
  if (timeout) start.deadline = Steady::now() + *timeout;
  start.prepare = [&] { return prepare_spawn(guest, settings, user_name, request, right); };
  co_return co_await guest.processes.start(std::move(start));
}

Task<> rpc_start(Guest& guest, Exchange& exchange) {
  EventStream stream(exchange, kKeepalive);
  auto message = co_await read_stream_request(exchange);
  Result<StartRequest> request = message.ok() ? parse_start(*message) : Result<StartRequest>(message.error());
  if (!request.ok()) {
    co_await stream.end(request.error());
    co_return;
  }
  bool offsets = request->offsets;
  auto process = co_await start_process(guest, exchange, std::move(*request));
  if (!process.ok()) {
    co_await stream.end(process.error());
    co_return;
  }
  Reader reader{Subscriber(*process, 0), offsets, true, std::nullopt};
  co_await stream_process(guest, exchange, stream, reader);
}

Result<ProcessPtr> select(const Guest& guest, const Selector& selector) {
  ProcessPtr found =
      selector.by_tag ? guest.processes.find(selector.tag) : guest.processes.find(selector.pid);
  if (found) return found;
  if (selector.by_tag) return make_error(Code::kNotFound, "process with tag '{}' not found", selector.tag);
  return make_error(Code::kNotFound, "process with pid {} not found", selector.pid);
}

// A process that has not ended.
Result<ProcessPtr> select_alive(const Guest& guest, const Selector& selector) {
  TRY(ProcessPtr process, select(guest, selector));
  if (process->reaped()) return make_error(Code::kNotFound, "process with pid {} not found", process->pid());
  return process;
}

Task<> rpc_connect(Guest& guest, Exchange& exchange) {
  EventStream stream(exchange, kKeepalive);
  auto message = co_await read_stream_request(exchange);
  Result<ConnectRequest> request =
      message.ok() ? parse_connect(*message) : Result<ConnectRequest>(message.error());
  Result<std::optional<Millis>> timeout = call_timeout(exchange.request().headers);
  Result<ProcessPtr> process =
      request.ok() ? select(guest, request->selector) : Result<ProcessPtr>(request.error());
  std::optional<Error> failure;
  if (!process.ok())
    failure = process.error();
  else if (!timeout.ok())
    failure = timeout.error();
  else if ((*process)->subscribers() >= kMaxSubscribers)
    failure =
        make_error(Code::kExhausted, "process {} has {} readers already", (*process)->pid(), kMaxSubscribers);
  if (failure) {
    co_await stream.end(std::move(failure));
    co_return;
  }
  // E2B's clients get what comes from now on, or, from a process that has ended, its last output.
  std::uint64_t from = (*process)->reaped() ? (*process)->ring().begin() : (*process)->ring().end();
  if (request->from_offset) from = std::min(*request->from_offset, (*process)->ring().end());
  Reader reader{Subscriber(*process, from), request->from_offset.has_value(), false, std::nullopt};
  if (*timeout) reader.deadline = Steady::now() + **timeout;
  co_await stream_process(guest, exchange, stream, reader);
}

std::string list_json(const Guest& guest) {
  std::string out = R"({"processes":[)";
  bool first = true;
  for (const ProcessPtr& process : guest.processes.alive()) {
    const ProcessConfig& config = process->config();
    ObjectWriter shown, item;
    std::string arguments = "[";
    for (const std::string& argument : config.arguments)
      arguments += fmt::format("{}{}", arguments.size() > 1 ? "," : "", json_quote(argument));
    shown.text("cmd", config.command).raw("args", arguments + "]").text_map("envs", config.environment);
    if (!config.directory.empty()) shown.text("cwd", config.directory);
    item.raw("config", std::move(shown).finish()).number("pid", process->pid());
    if (!config.tag.empty()) item.text("tag", config.tag);
    if (!config.label.empty()) item.text("label", config.label);
    if (!first) out += ',';
    first = false;
    out += std::move(item).finish();
  }
  return out + "]}";
}

// What it is told decides what it sends under its label.
Result<void> may_speak_to(const Exchange& exchange, const Process& process) {
  if (!process.labelled() || label_right(exchange.request()) == LabelRight::kYes) return success();
  return make_error(Code::kDenied,
                    "label_refused: process {} has a label, and this request comes from inside",
                    process.pid());
}

Task<Result<std::string>> write_input(Guest& guest, Exchange& exchange, ProcessPtr process, Input input) {
  CO_TRY_VOID(may_speak_to(exchange, *process));
  if (input.to_terminal != process->has_terminal())
    co_return make_error(
        Code::kInvalid, "process with pid {} {}", process->pid(),
        process->has_terminal() ? "has a terminal: send input.pty" : "has no terminal: send input.stdin");
  ClientWatch watch(guest.executor, exchange, [&process] { process->wake_input(); });
  auto written = co_await process->write_input(std::move(input.data), input.offset, watch.flag());
  co_await watch.stop();
  if (!written.ok()) co_return std::move(written).error();
  co_return std::string("{}");
}

Task<Result<std::string>> unary_call(Guest& guest, Exchange& exchange, std::string_view method) {
  CO_TRY(auto message, co_await read_unary(exchange));
  if (method == "List") co_return list_json(guest);
  CO_TRY(UnaryRequest request, parse_unary(message, method));
  CO_TRY(ProcessPtr process, select_alive(guest, request.selector));
  if (method == "SendInput")
    co_return co_await write_input(guest, exchange, process, std::move(request.input));
  if (method == "CloseStdin") {
    CO_TRY_VOID(may_speak_to(exchange, *process));
    CO_TRY_VOID(process->close_input());
  }
  if (method == "SendSignal") CO_TRY_VOID(process->send_signal(request.signal));
  if (method == "Update" && request.terminal) CO_TRY_VOID(process->resize(*request.terminal));
  co_return std::string("{}");
}

// The messages of StreamInput: first which process, then data.
Task<Result<void>> take_input_stream(Guest& guest, Exchange& exchange) {
  http::connect::EnvelopeReader reader(kMaxMessage);
  ProcessPtr process;
  std::array<char, 16 * kKiB> buffer;
  for (;;) {
    CO_TRY(auto envelope, reader.next());
    if (!envelope) {
      CO_TRY(std::size_t got, co_await exchange.read_body(buffer));
      if (got == 0) break;
      reader.feed({buffer.data(), got});
      continue;
    }
    if ((envelope->flags & http::connect::kEndStream) != 0) break;
    CO_TRY(auto message, parse_message(envelope->payload));
    CO_TRY(InputMessage input, parse_input_message(message));
    if (input.selector) {
      CO_TRY(process, select_alive(guest, *input.selector));
      CO_TRY_VOID(may_speak_to(exchange, *process));
    } else if (input.input) {
      if (!process) co_return Error(Code::kInvalid, "the first message must be 'start'");
      // The body is being read here, so the client's departure shows at the next read; the process's end ends
      // the wait.
      static constexpr bool kStays = false;
      CO_TRY_VOID(co_await process->write_input(std::move(input.input->data), input.input->offset, &kStays));
    }
  }
  if (!reader.empty()) co_return Error(Code::kInvalid, "the request ends in the middle of a message");
  co_return success();
}

Task<> rpc_stream_input(Guest& guest, Exchange& exchange) {
  EventStream stream(exchange, kKeepalive);
  exchange.set_idle_limit(Steady::duration::zero());  // a terminal may be silent for hours
  auto taken = co_await take_input_stream(guest, exchange);
  if (!taken.ok()) {
    co_await stream.end(taken.error());
    co_return;
  }
  auto sent = co_await stream.send("{}");
  if (sent.ok()) co_await stream.end(std::nullopt);
}

}  // namespace

std::map<std::string, std::string> process_environment(const Settings& settings, const User& user,
                                                       const std::map<std::string, std::string>& requested) {
  std::map<std::string, std::string> out{
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"HOME", user.account.home},
      {"USER", user.account.name},
      {"LOGNAME", user.account.name},
      {"E2B_SANDBOX", "true"},
  };
  if (!settings.sandbox.empty()) out["E2B_SANDBOX_ID"] = settings.sandbox;
  if (!settings.template_id.empty()) out["E2B_TEMPLATE_ID"] = settings.template_id;
  if (!settings.team.empty()) out["E2B_TEAM_ID"] = settings.team;
  for (const auto& [name, value] : settings.gateway_environment) out[name] = value;
  for (const auto& [name, value] : settings.environment) out[name] = value;
  for (const auto& [name, value] : requested) out[name] = value;
  return out;
}

namespace {

constexpr char kNetworkVariable[] = "ATOLL_NETWORK";

// What cannot be given is refused, and never less than that.
Result<bool> without_network(const std::map<std::string, std::string>& environment) {
  auto word = environment.find(kNetworkVariable);
  if (word == environment.end() || word->second == "none") return word != environment.end();
  return make_error(Code::kInvalid, "process.envs.{}: must be \"none\", or left out", kNetworkVariable);
}

}  // namespace

Result<SpawnRequest> prepare_process(Guest& guest, const Settings& settings, const std::string& user_name,
                                     const ProcessConfig& config, LabelRight right) {
  TRY(User user, find_user(guest, user_name, settings.default_user));
  SpawnRequest spawn;
  spawn.command = config.command;
  spawn.arguments = config.arguments;
  spawn.environment = process_environment(settings, user, config.environment);
  TRY(spawn.directory, normal_path(config.directory, user.account.home, settings.workdir));
  TRY(spawn.no_network, without_network(spawn.environment));
  const model::GuestBoot& boot = guest.options.boot;
  TRY(std::uint32_t label, choose_label(settings, boot, config.label, config.environment, right));
  if (label != 0) {
    TRY(sys::Fd group, open_label(boot, label));
    spawn.group = std::make_shared<const sys::Fd>(std::move(group));
    spawn.guards = sys::guards_of(label);
  }
  spawn.identity = user.identity;
  spawn.stdin_open = false;
  spawn.open_files = guest.options.boot.open_files;
  return spawn;
}

Task<bool> serve_process(Guest& guest, Exchange& exchange, std::string_view method) {
  if (method == "Start") {
    co_await rpc_start(guest, exchange);
  } else if (method == "Connect") {
    co_await rpc_connect(guest, exchange);
  } else if (method == "StreamInput") {
    co_await rpc_stream_input(guest, exchange);
  } else if (method == "List" || method == "SendInput" || method == "CloseStdin" || method == "SendSignal" ||
             method == "Update") {
    auto answer = co_await unary_call(guest, exchange, method);
    co_await respond_unary(exchange, std::move(answer));
  } else {
    co_return false;
  }
  co_return true;
}

}  // namespace atl::guest
