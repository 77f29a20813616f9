// SPDX-License-Identifier: Apache-2.0
#include "guest/batch_steps.h"

#include <boost/json.hpp>

#include "base/bytes.h"
#include "base/text.h"
#include "guest/file_ops.h"
#include "guest/identity.h"
#include "guest/json.h"
#include "guest/limits.h"
#include "guest/paths.h"
#include "guest/posix.h"
#include "guest/process_service.h"
#include "guest/upload.h"
#include "http/client.h"
#include "net/tcp.h"

namespace atl::guest {
namespace {

// --- code: by the interpreter of this sandbox

std::string execute_json(const BatchStep& step) {
  ObjectWriter out;
  out.text("code", step.text).text_map("env_vars", step.environment);
  if (!step.context.empty()) out.text("context_id", step.context);
  if (!step.language.empty()) out.text("language", step.language);
  return std::move(out).finish();
}

Task<Result<net::StreamPtr>> dial_interpreter() {
  net::Endpoint endpoint{"127.0.0.1", kInterpreterPort};
  net::ConnectOptions options;
  co_return co_await net::connect_tcp(endpoint, options);
}

Task<Result<std::unique_ptr<http::ClientExchange>>> begin_code(Guest& guest, const BatchStep& step) {
  http::RequestHead request;
  request.method = "POST";
  request.target = "/execute";
  request.authority = "localhost";
  const std::string& token = guest.settings.access_token.reveal();
  if (!token.empty()) request.headers.add("x-access-token", token);
  std::string body = execute_json(step);
  request.has_body = true;
  request.content_length = body.size();
  http::ClientLimits limits;
  limits.max_idle = 0;
  auto client = http::make_client(dial_interpreter, limits);
  auto exchange = co_await client->start(std::move(request));
  if (!exchange.ok()) {
    co_return make_error(Code::kUnavailable, "there is no code interpreter in this sandbox: {}",
                         exchange.error().message());
  }
  CO_TRY_VOID(co_await (*exchange)->write_body(body));
  co_return std::move(*exchange);
}

// One line of the interpreter's answer: passed on, unless it says nothing to the reader of a batch.
void take_line(StepContext& context, std::string_view line, StepResult& result, bool& ended) {
  boost::system::error_code failure;
  boost::json::parse_options options;
  options.max_depth = kMaxRecordDepth;
  boost::json::value value = boost::json::parse({line.data(), line.size()}, failure, {}, options);
  if (failure || !value.is_object()) return;
  const boost::json::value* type = value.get_object().if_contains("type");
  if (type == nullptr || !type->is_string()) return;
  if (type->get_string() == "end_of_execution") ended = true;
  if (type->get_string() == "error") result.ok = false;
  if (type->get_string() != "keepalive" && type->get_string() != "end_of_execution") context.say(line);
}

Task<Result<StepResult>> read_code(StepContext& context, http::ClientExchange& exchange) {
  CO_TRY(auto head, co_await exchange.read_head());
  if (head.status != 200) {
    CO_TRY(std::string text, co_await exchange.read_all(kMaxMessage));
    co_return make_error(head.status == 404 ? Code::kNotFound : Code::kInvalid, "{}", text);
  }
  StepResult result;
  bool ended = false;
  std::string pending, buffer(kPipeChunk, '\0');
  for (;;) {
    auto got = co_await exchange.read_body(buffer);
    if (!got.ok() || *got == 0) break;
    pending.append(buffer, 0, *got);
    std::size_t start = 0;
    for (std::size_t end; (end = pending.find('\n', start)) != std::string::npos; start = end + 1)
      take_line(context, std::string_view(pending).substr(start, end - start), result, ended);
    pending.erase(0, start);
  }
  if (ended) co_return result;
  Error unknown = make_error(Code::kUnavailable,
                             "the interpreter ended before the code did: how far that came is not known");
  co_return std::move(unknown).with_word("outcome_unknown");
}

// Closes the exchange when the batch is cancelled: to the interpreter, a client that left.
Task<> close_when_cancelled(StepContext& context, http::ClientExchange& exchange, const bool& done) {
  while (!context.cancelled && !done) co_await context.changed.wait();
  if (!done) exchange.close();
}

Task<Result<StepResult>> run_code(StepContext& context, const BatchStep& step) {
  CO_TRY(auto exchange, co_await begin_code(context.guest, step));
  bool done = false;
  async::Scope watcher(context.guest.executor);
  watcher.spawn("batch code", close_when_cancelled(context, *exchange, done));
  auto result = co_await read_code(context, *exchange);
  done = true;
  context.changed.notify_all();
  co_await watcher.join();
  co_return result;
}

// --- commands

std::string output_json(const Ring::Piece& piece) {
  ObjectWriter out;
  out.text(piece.channel == Channel::kStderr ? "stderr" : "stdout", base64_encode(piece.data));
  return std::move(out).finish();
}

Task<Result<StepResult>> run_command(StepContext& context, const BatchStep& step) {
  Guest& guest = context.guest;
  Settings settings = guest.settings;  // the worker must not see it change
  ProcessTable::Start start;
  start.config.command = "/bin/bash";
  start.config.arguments = {"-l", "-c", step.text};
  start.config.environment = step.environment;
  start.config.directory = step.directory;
  start.config.label = step.label;
  ProcessConfig config = start.config;
  start.prepare = [&] { return prepare_process(guest, settings, context.user, config, context.right); };
  CO_TRY(ProcessPtr process, co_await guest.processes.start(std::move(start)));
  Subscriber reader(process, 0);
  bool killed = false;
  for (;;) {
    Ring::Piece piece = reader.peek();
    if (!piece.data.empty()) {
      std::size_t size = piece.data.size();
      context.say(output_json(piece));
      reader.skip_to(piece.offset);
      reader.taken(size);
      continue;
    }
    if (process->outcome()) break;
    if (context.cancelled && !killed) {
      killed = true;
      (void)process->send_signal(SIGKILL);
    }
    // A cancelled batch is noticed at the process's next word, or soon.
    co_await process->changed().wait_until(Steady::now() + kBatchLook);
  }
  const Outcome& outcome = *process->outcome();
  ObjectWriter out;
  out.number("exitCode", outcome.exit_code).text("outcome", outcome_name(outcome.kind));
  StepResult result;
  result.ok = outcome.exit_code == 0 && outcome.signal == 0;
  result.json = std::move(out).finish();
  co_return result;
}

// --- files; everything here blocks on the disk

Result<std::string> read_text(const User& user, const std::string& path) {
  ActAs as(user.identity);
  TRY(std::string bytes, read_small_file(path, kMaxBatchFile));
  ObjectWriter out;
  out.text("base64", base64_encode(bytes));
  return std::move(out).finish();
}

Result<std::string> work_on_file(Guest& guest, const Settings& settings, const std::string& user_name,
                                 const BatchStep& step) {
  TRY(User user, find_user(guest, user_name, settings.default_user));
  auto accounts = guest.accounts.get();
  auto normal = [&](const std::string& path) {
    return normal_path(path, user.account.home, settings.workdir);
  };
  auto entry = [&](Result<Entry> made) -> Result<std::string> {
    if (!made.ok()) return std::move(made).error();
    return fmt::format(R"({{"entry":{}}})", entry_json(*made, *accounts));
  };
  TRY(std::string path, normal(step.text));
  switch (step.kind) {
    case StepKind::kWrite: {
      TRY(Upload upload, Upload::begin(user, path, Metadata()));
      TRY_VOID(upload.write_whole(step.content));
      return std::string();
    }
    case StepKind::kRead: return read_text(user, path);
    case StepKind::kList: {
      TRY(std::string entries, list_json(user, *accounts, path, 1));
      return fmt::format(R"({{"entries":{}}})", entries);
    }
    case StepKind::kMakeDirectory: return entry(make_directory(user, path));
    case StepKind::kMove: {
      TRY(std::string destination, normal(step.destination));
      return entry(move_path(user, path, destination));
    }
    default: break;
  }
  TRY_VOID(remove_path(user, path));
  return std::string();
}

Task<Result<StepResult>> run_file(StepContext& context, const BatchStep& step) {
  Guest& guest = context.guest;
  Settings settings = guest.settings;
  auto work = [&] { return work_on_file(guest, settings, context.user, step); };
  CO_TRY(std::string json, co_await guest.file_workers.run(work));
  StepResult result;
  result.json = std::move(json);
  co_return result;
}

}  // namespace

std::string json_text(std::string_view text) { return json_quote(text); }

Task<Result<StepResult>> run_step(StepContext& context, const BatchStep& step) {
  if (step.kind == StepKind::kCode) co_return co_await run_code(context, step);
  if (step.kind == StepKind::kCommand) co_return co_await run_command(context, step);
  co_return co_await run_file(context, step);
}

}  // namespace atl::guest
