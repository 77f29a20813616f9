// SPDX-License-Identifier: Apache-2.0
#include "guest/server.h"

#include <malloc.h>

#include "base/log.h"
#include "guest/access.h"
#include "guest/activity.h"
#include "guest/files_api.h"
#include "guest/filesystem_service.h"
#include "guest/init.h"
#include "guest/limits.h"
#include "guest/process_service.h"
#include "guest/rest.h"
#include "guest/rpc.h"
#include "guest/start.h"
#include "guest/tunnel.h"

namespace atl::guest {
namespace {

constexpr Steady::duration kQuiet = std::chrono::seconds(3);
constexpr std::string_view kProcessService = "/process.Process/";
constexpr std::string_view kFilesystemService = "/filesystem.Filesystem/";

// Counts something for as long as it lives.
class Counted {
 public:
  explicit Counted(std::size_t& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::size_t& count_;
};

// A request of a client.
class ClientRequest {
 public:
  explicit ClientRequest(Guest& guest) : guest_(guest) { ++guest_.requests; }
  ~ClientRequest() {
    --guest_.requests;
    guest_.last_request = Steady::now();
  }
  ClientRequest(const ClientRequest&) = delete;
  ClientRequest& operator=(const ClientRequest&) = delete;

 private:
  Guest& guest_;
};

Task<> respond_empty(Exchange& exchange) {
  http::ResponseHead head;
  head.status = 204;
  head.headers.add("cache-control", "no-store");
  co_await respond(exchange, std::move(head), "");
}

}  // namespace

Server::Server(async::Executor executor, Options options)
    : executor_(executor),
      guest_(executor, options),
      metrics_(options.boot),
      handler_([this](Exchange& exchange) { return handle(exchange); }),
      connections_(executor),
      activity_(executor) {
  limits_.connections = kMaxConnections;
}

Task<> Server::run(std::unique_ptr<net::Listener> listener) {
  listener_ = listener.get();
  connections_.spawn("trim", trim_when_quiet());
  for (;;) {
    auto stream = co_await listener->accept();
    if (!stream.ok()) {
      if (stream.error().code() == Code::kCancelled) break;
      log::warn("accept failed", {{"why", stream.error().message()}});
      continue;
    }
    // The connection is dropped at once; control sees the reset and tries again on one that it has.
    if (connections_.size() >= limits_.connections) continue;
    connections_.spawn("connection", serve_connection(std::move(*stream)));
  }
  listener_ = nullptr;
}

Task<> Server::serve_connection(net::StreamPtr stream) {
  co_await http::serve_http1(std::move(stream), std::string(), false, limits_, handler_);
}

Task<> Server::shut_down() {
  if (listener_ != nullptr) listener_->close();
  connections_.cancel();
  co_await guest_.batches.shut_down();
  co_await guest_.processes.shut_down();
  co_await guest_.watches.shut_down();
  co_await connections_.join();
}

// An idle daemon gives free memory inside its heap back to the kernel: once when requests have stopped, and
// once more when what ended processes left is forgotten too. Without requests it sleeps without a timer.
Task<> Server::trim_when_quiet() {
  while (!connections_.cancelled()) {
    if (!active_) co_await activity_.wait();
    for (auto pause : {kQuiet, kRetention + kQuiet}) {
      active_ = false;
      co_await async::sleep_for(pause);
      if (active_ || connections_.cancelled()) break;
      ::malloc_trim(0);
    }
  }
}

Task<> Server::handle(Exchange& exchange) {
  active_ = true;
  activity_.notify_all();
  std::string path(exchange.request().path());
  const http::Headers& headers = exchange.request().headers;
  if (co_await serve_internal(exchange, path)) co_return;
  ClientRequest counted(guest_);
  if (path == "/health" && exchange.request().method == "GET") {
    co_await respond_empty(exchange);
    co_return;
  }
  if (path == "/files") {
    co_await serve_files(exchange);
    co_return;
  }
  if (!has_access(headers, guest_.settings.access_token)) {
    co_await respond_error(exchange, 401, kNoAccess);
    co_return;
  }
  if (!co_await serve_open(exchange, path)) co_await respond_error(exchange, 404, "no such path here");
}

// Without the internal token these look like any unknown path.
Task<bool> Server::serve_internal(Exchange& exchange, std::string_view path) {
  const http::RequestHead& request = exchange.request();
  if (!is_internal(request.headers, guest_.options.internal_token)) {
    bool known = path == "/init" || path == "/freeze" || path == "/activity" || path == "/started" ||
                 request.method == "CONNECT";
    if (known) co_await respond_error(exchange, 404, "no such path here");
    co_return known;
  }
  if (request.method == "CONNECT") {
    co_await serve_tunnel(executor_, exchange);
    co_return true;
  }
  if (path == "/init" && request.method == "POST") {
    co_await serve_init(guest_, exchange);
    co_return true;
  }
  if (path == "/freeze" && request.method == "POST") {
    co_await serve_freeze(guest_, exchange);
    co_return true;
  }
  if (path == "/started" && request.method == "GET") {
    co_await serve_started(guest_, exchange);
    co_return true;
  }
  if (path == "/activity" && request.method == "GET") {
    co_await respond_json(exchange, 200, activity_json(guest_));
    co_return true;
  }
  co_return false;
}

Task<> Server::serve_files(Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  bool reads = request.method == "GET" || request.method == "HEAD";
  if (!reads && request.method != "POST") {
    co_await respond_error(exchange, 405, "only GET and POST are served here");
    co_return;
  }
  auto query = http::parse_query(request.query());
  if (!query.ok()) {
    co_await respond_error(exchange, query.error());
    co_return;
  }
  std::int64_t now = system_clock().now().ms / 1000;
  auto allowed =
      check_file_access(request.headers, *query, reads ? "read" : "write", guest_.settings.access_token, now);
  if (!allowed.ok()) {
    co_await respond_error(exchange, allowed.error());
    co_return;
  }
  // Each transfer holds a buffer, and the sandbox's memory is the client's.
  if (guest_.transfers >= kMaxTransfers) {
    co_await respond_error(exchange, 429, "too many transfers at the same time");
    co_return;
  }
  Counted counted(guest_.transfers);
  if (reads) co_await serve_download(guest_, exchange, std::move(*query));
  if (!reads) co_await serve_upload(guest_, exchange, std::move(*query));
}

Task<bool> Server::serve_open(Exchange& exchange, std::string_view path) {
  const std::string& method = exchange.request().method;
  if (method == "POST" && path.starts_with(kProcessService))
    co_return co_await serve_process(guest_, exchange, path.substr(kProcessService.size()));
  if (method == "POST" && path.starts_with(kFilesystemService))
    co_return co_await serve_filesystem(guest_, exchange, path.substr(kFilesystemService.size()));
  if (method == "POST" && path == "/files/compose")
    co_await serve_compose(guest_, exchange);
  else if (method == "POST" && path == "/batch")
    co_await serve_batch(guest_, exchange);
  else if (method == "GET" && path == "/metrics")
    co_await respond_json(exchange, 200, metrics_.read());
  else if (method == "GET" && path == "/envs")
    co_await respond_json(exchange, 200, text_map_json(guest_.settings.environment));
  else
    co_return false;
  co_return true;
}

}  // namespace atl::guest
