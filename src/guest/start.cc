// SPDX-License-Identifier: Apache-2.0
#include "guest/start.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/log.h"
#include "guest/json.h"
#include "guest/limits.h"
#include "guest/posix.h"
#include "guest/process_service.h"
#include "http/client.h"
#include "net/tcp.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxFile = 64 * kKiB;
constexpr std::size_t kMaxPorts = 16;
constexpr int kBacklog = 1024;
constexpr Millis kFirstPause{50};
constexpr Millis kLongestPause{30'000};
constexpr std::size_t kMaxReadyAnswer = 64 * kKiB;
constexpr std::chrono::seconds kStable{60};  // after so long a run the next end counts as a first one

void read_ports(const boost::json::object& message, Fields& fields, std::vector<std::uint16_t>& out) {
  const boost::json::value* list = message.if_contains("listen");
  if (list == nullptr) return;
  if (!list->is_array() || list->get_array().size() > kMaxPorts)
    return fields.fail("listen", fmt::format("must be a list of at most {} ports", kMaxPorts));
  for (const boost::json::value& entry : list->get_array()) {
    const std::int64_t* port = entry.if_int64();
    if (port == nullptr || *port < 1 || *port > std::numeric_limits<std::uint16_t>::max())
      return fields.fail("listen", "a port is no number from 1 to 65535");
    out.push_back(static_cast<std::uint16_t>(*port));
  }
}

Result<sys::Fd> listen_on_port(std::uint16_t port) {
  sys::Fd made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return Error::from_errno(errno, "make a socket");
  // Handed over by number (SpawnRequest::passed).
  sys::Fd fd(::fcntl(made.get(), F_DUPFD_CLOEXEC, kPassedAbove + 1));
  int on = 1;
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return Error::from_errno(errno, fmt::format("listen on port {}", port));
  return fd;
}

Result<SpawnRequest> prepare_start(Guest& guest, const StartCommand& command, std::vector<int> sockets) {
  TRY(User user, find_user(guest, command.user, std::string()));
  SpawnRequest spawn;
  spawn.command = command.command;
  spawn.arguments = command.arguments;
  spawn.environment = process_environment(Settings(), user, {});
  spawn.environment["LANG"] = "C.UTF-8";
  spawn.environment["LISTEN_FDS"] = std::to_string(sockets.size());
  spawn.directory = command.directory.empty() ? user.account.home : command.directory;
  spawn.identity = user.identity;
  spawn.stdin_open = false;
  spawn.open_files = guest.options.boot.open_files;
  spawn.passed = std::move(sockets);
  return spawn;
}

Task<Result<net::StreamPtr>> dial_own(std::uint16_t port) {
  net::Endpoint endpoint{"127.0.0.1", port};
  net::ConnectOptions options;
  co_return co_await net::connect_tcp(endpoint, options);
}

}  // namespace

Task<> serve_started(Guest& guest, Exchange& exchange) {
  ClientWatch watch(guest.executor, exchange, [&guest] { guest.started_changed.notify_all(); });
  while (!guest.started && !watch.gone()) co_await guest.started_changed.wait();
  co_await watch.stop();
  if (watch.gone()) co_return;
  http::ResponseHead head;
  head.status = 204;
  co_await respond(exchange, std::move(head), "");
}

Result<StartCommand> parse_start_command(std::string_view text) {
  TRY(auto message, parse_message(text));
  Fields fields(message);
  StartCommand out;
  out.command = fields.text("command");
  out.arguments = fields.texts("args", kMaxArguments);
  out.user = fields.text("user");
  out.directory = fields.text("cwd");
  read_ports(message, fields, out.ports);
  out.ready = fields.text("ready");
  if (!out.ready.empty() && (out.ready.front() != '/' || out.ports.empty()))
    fields.fail("ready", "must be a path, and 'listen' must name its port");
  if (out.command.empty() || out.command.front() != '/') fields.fail("command", "must be an absolute path");
  if (fields.failure()) return *fields.failure();
  return out;
}

std::optional<StartCommand> read_start_command(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  auto text = read_small_file(path, kMaxFile);
  Result<StartCommand> command =
      text.ok() ? parse_start_command(*text) : Result<StartCommand>(std::move(text).error());
  if (command.ok()) return std::move(*command);
  log::error("the template's start command cannot be read",
             {{"file", path}, {"why", command.error().message()}});
  return std::nullopt;
}

Result<void> Startup::listen() {
  for (std::uint16_t port : command_.ports) {
    TRY(sys::Fd fd, listen_on_port(port));
    sockets_.push_back(std::move(fd));
  }
  guest_.started = command_.ready.empty();
  return success();
}

Task<> Startup::wait_ready() {
  if (guest_.started) co_return;
  auto client = http::make_client([port = command_.ports.front()] { return dial_own(port); });
  for (Millis pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    http::RequestHead request;
    request.method = "GET";
    request.target = command_.ready;
    request.authority = "localhost";
    auto answer = co_await http::fetch(client, std::move(request), std::string(), kMaxReadyAnswer);
    if (answer.ok() && answer->head.status / 100 == 2) break;
    log::warn("the start command is not ready",
              {{"why", answer.ok() ? fmt::format("it answered {}", answer->head.status)
                                   : answer.error().message()}});
    co_await async::sleep_for(pause);
  }
  guest_.started = true;
  guest_.started_changed.notify_all();
}

Task<Result<ProcessPtr>> Startup::start() {
  std::vector<int> sockets;
  for (const sys::Fd& fd : sockets_) sockets.push_back(fd.get());
  ProcessTable::Start start;
  start.config.command = command_.command;
  start.config.arguments = command_.arguments;
  start.config.service = true;  // that it runs is no work: the sandbox may sleep
  start.prepare = [this, sockets] { return prepare_start(guest_, command_, sockets); };
  co_return co_await guest_.processes.start(std::move(start));
}

Task<> Startup::run() {
  Millis pause = kFirstPause;
  for (;;) {
    auto began = Steady::now();
    auto process = co_await start();
    if (process.ok()) {
      Subscriber seen(*process, 0);  // its output is kept for a while, and holds it back for nobody
      while (!(*process)->outcome()) {
        seen.skip_to((*process)->ring().end());
        co_await (*process)->changed().wait();
      }
      log::warn("the start command has ended", {{"how", status_text(*(*process)->outcome())}});
    } else {
      log::error("the start command does not start", {{"why", process.error().message()}});
    }
    if (Steady::now() - began > kStable) pause = kFirstPause;
    // Not while a pause ends all processes: the next boot starts it again.
    do {
      co_await async::sleep_for(pause);
      pause = std::min(pause * 2, kLongestPause);
    } while (guest_.processes.clocks_held());
  }
}

}  // namespace atl::guest
