// SPDX-License-Identifier: Apache-2.0
#include "guest/filesystem_service.h"

#include <limits>

#include "base/text.h"
#include "guest/file_ops.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

// Fields of all requests; each method uses its own.
struct Request {
  std::string path;
  std::string source;
  std::string destination;
  std::size_t depth = 1;
  bool recursive = false;
  bool include_entry = false;
  std::string watcher;
};

// Who calls, and the settings that paths depend on.
struct Caller {
  std::string user;
  std::string default_user;
  std::string workdir;
};

Result<Request> parse_request(const boost::json::object& message) {
  Fields fields(message);
  Request out;
  out.path = fields.text("path");
  out.source = fields.text("source");
  out.destination = fields.text("destination");
  auto depth = fields.integer("depth", 0, std::numeric_limits<std::uint32_t>::max());
  out.depth = static_cast<std::size_t>(depth.value_or(1));
  out.recursive = fields.boolean("recursive");
  out.include_entry = fields.boolean("includeEntry");
  fields.boolean("allowNetworkMounts");
  out.watcher = fields.text("watcherId");
  if (fields.failure()) return *fields.failure();
  return out;
}

Result<Caller> caller_of(const Guest& guest, const Exchange& exchange) {
  TRY(std::string user, basic_user(exchange.request().headers));
  return Caller{std::move(user), guest.settings.default_user, guest.settings.workdir};
}

Result<std::string> entry_answer(Result<Entry> entry, const Accounts& accounts) {
  if (!entry.ok()) return std::move(entry).error();
  return fmt::format(R"({{"entry":{}}})", entry_json(*entry, accounts));
}

// The blocking part of a unary call on paths.
Result<std::string> work_on_path(Guest& guest, const Caller& caller, const Request& request,
                                 std::string_view method) {
  TRY(User user, find_user(guest, caller.user, caller.default_user));
  auto accounts = guest.accounts.get();
  auto normal = [&](const std::string& path) { return normal_path(path, user.account.home, caller.workdir); };
  if (method == "Move") {
    TRY(std::string source, normal(request.source));
    TRY(std::string destination, normal(request.destination));
    return entry_answer(move_path(user, source, destination), *accounts);
  }
  TRY(std::string path, normal(request.path));
  if (method == "Stat") return entry_answer(stat_path(user, path), *accounts);
  if (method == "MakeDir") return entry_answer(make_directory(user, path), *accounts);
  if (method == "Remove") {
    TRY_VOID(remove_path(user, path));
    return std::string("{}");
  }
  TRY(std::string entries, list_json(user, *accounts, path, request.depth));
  return fmt::format(R"({{"entries":{}}})", entries);
}

Task<Result<std::string>> path_call(Guest& guest, Exchange& exchange, std::string_view method) {
  CO_TRY(auto message, co_await read_unary(exchange));
  CO_TRY(Request request, parse_request(message));
  CO_TRY(Caller caller, caller_of(guest, exchange));
  co_return co_await guest.file_workers.run([&] { return work_on_path(guest, caller, request, method); });
}

Task<Result<WatcherPtr>> start_watch(Guest& guest, Exchange& exchange, boost::json::object message) {
  CO_TRY(Request request, parse_request(message));
  CO_TRY(Caller caller, caller_of(guest, exchange));
  auto prepared = co_await guest.file_workers.run([&]() -> Result<WatchRequest> {
    TRY(User user, find_user(guest, caller.user, caller.default_user));
    TRY(std::string path, normal_path(request.path, user.account.home, caller.workdir));
    return WatchRequest{std::move(path), std::move(user), request.recursive, request.include_entry};
  });
  if (!prepared.ok()) co_return std::move(prepared).error();
  co_return co_await guest.watches.watch(std::move(*prepared), guest.file_workers, guest.accounts);
}

Error events_lost() {
  return Error(Code::kExhausted,
               "more happened than was taken, and events were lost: list the directory and watch again");
}

Task<> stream_watch(Guest& guest, Exchange& exchange, EventStream& stream, WatcherPtr watcher,
                    std::optional<Steady::time_point> deadline) {
  ClientWatch watch(guest.executor, exchange, [watcher] { watcher->changed().notify_all(); });
  Rest::Stay stay(guest.rest, [watcher] { watcher->changed().notify_all(); });
  auto sent = co_await stream.send(R"({"start":{}})");
  std::optional<Error> failure;
  while (sent.ok() && !watch.gone()) {
    if (auto event = watcher->take()) {
      std::string json = fmt::format(R"({{"filesystem":{}}})", *event);
      sent = co_await stream.send(json);
      continue;
    }
    if (watcher->lost())
      failure = events_lost();
    else if (stay.due())
      failure = pausing_error("resume it and watch again");
    else if (deadline && Steady::now() >= *deadline)
      failure = Error(Code::kDeadline, "the time limit of this request has passed");
    if (failure) break;
    if (Steady::now() >= stream.keepalive_due()) {
      sent = co_await stream.send_keepalive();
      continue;  // something may have happened meanwhile, and its notification has passed
    }
    auto until = stream.keepalive_due();
    if (deadline) until = std::min(until, *deadline);
    co_await watcher->changed().wait_until(until);
  }
  bool deliver = sent.ok() && !watch.gone();
  co_await watch.stop();
  if (deliver) co_await stream.end(std::move(failure));
}

Task<> rpc_watch_dir(Guest& guest, Exchange& exchange) {
  EventStream stream(exchange, R"({"keepalive":{}})");
  auto timeout = call_timeout(exchange.request().headers);
  auto message = co_await read_stream_request(exchange);
  std::optional<Error> failure;
  if (!message.ok())
    failure = message.error();
  else if (!timeout.ok())
    failure = timeout.error();
  if (failure) {
    co_await stream.end(std::move(failure));
    co_return;
  }
  auto watcher = co_await start_watch(guest, exchange, std::move(*message));
  if (!watcher.ok()) {
    co_await stream.end(watcher.error());
    co_return;
  }
  std::optional<Steady::time_point> deadline;
  if (*timeout) deadline = Steady::now() + **timeout;
  co_await stream_watch(guest, exchange, stream, *watcher, deadline);
  (*watcher)->close();
}

Result<std::string> watcher_events(Guest& guest, const Request& request) {
  WatcherPtr watcher = guest.watches.find(request.watcher);
  if (!watcher) return make_error(Code::kNotFound, "watcher with id {} not found", request.watcher);
  std::string out = R"({"events":[)";
  bool first = true;
  while (auto event = watcher->take()) {
    if (!first) out += ',';
    first = false;
    out += *event;
  }
  if (first && watcher->lost()) {
    watcher->clear_lost();
    return events_lost();
  }
  return out + "]}";
}

Task<Result<std::string>> watcher_call(Guest& guest, Exchange& exchange, std::string_view method) {
  CO_TRY(auto message, co_await read_unary(exchange));
  if (method == "CreateWatcher") {
    CO_TRY(WatcherPtr watcher, co_await start_watch(guest, exchange, std::move(message)));
    co_return fmt::format(R"({{"watcherId":"{}"}})", guest.watches.keep(std::move(watcher)));
  }
  CO_TRY(Request request, parse_request(message));
  if (method == "GetWatcherEvents") co_return watcher_events(guest, request);
  if (!guest.watches.remove(request.watcher))
    co_return make_error(Code::kNotFound, "watcher with id {} not found", request.watcher);
  co_return std::string("{}");
}

}  // namespace

Task<bool> serve_filesystem(Guest& guest, Exchange& exchange, std::string_view method) {
  if (method == "Stat" || method == "MakeDir" || method == "Move" || method == "ListDir" ||
      method == "Remove") {
    auto answer = co_await path_call(guest, exchange, method);
    co_await respond_unary(exchange, std::move(answer));
  } else if (method == "CreateWatcher" || method == "GetWatcherEvents" || method == "RemoveWatcher") {
    auto answer = co_await watcher_call(guest, exchange, method);
    co_await respond_unary(exchange, std::move(answer));
  } else if (method == "WatchDir") {
    co_await rpc_watch_dir(guest, exchange);
  } else {
    co_return false;
  }
  co_return true;
}

}  // namespace atl::guest
