// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/server.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "guest/interpreter/limits.h"
#include "guest/interpreter/lines.h"
#include "guest/interpreter/run_directory.h"
#include "guest/interpreter/stream.h"
#include "guest/json.h"
#include "guest/rpc.h"
#include "sys/files.h"

namespace atl::guest::interpreter {
namespace {

constexpr std::string_view kContexts = "/contexts/";
constexpr std::string_view kRestart = "/restart";

Task<> respond_text(Exchange& exchange, int status, std::string text) {
  http::ResponseHead head;
  head.status = status;
  head.headers.add("content-type", "text/plain; charset=utf-8");
  co_await respond(exchange, std::move(head), std::move(text));
}

Task<> respond_failure(Exchange& exchange, const Error& error) {
  co_await respond_text(exchange, http_status(error.code()), error.message());
}

std::string context_json(const ContextInfo& info) {
  ObjectWriter out;
  out.text("id", info.id).text("language", info.language).text("cwd", info.directory);
  return std::move(out).finish();
}

std::string list_json(const std::vector<ContextPtr>& contexts) {
  std::string out = "[";
  for (const ContextPtr& context : contexts) {
    if (out.size() > 1) out += ',';
    out += context_json(context->info());
  }
  return out + "]";
}

Result<void> check_environment(const Environment& environment, Fields& fields) {
  for (const auto& [name, value] : environment) {
    bool bad = name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos ||
               value.find('\0') != std::string::npos;
    if (bad) fields.fail("env_vars", "a name is empty or contains '=', or an entry contains a NUL byte");
    // A kernel lives on, and speaks with us over sockets.
    if (name == "ATOLL_NETWORK")
      fields.fail("env_vars",
                  "ATOLL_NETWORK is for commands: code in a context has the network of its sandbox");
    if (name == "ATOLL_LABEL")
      fields.fail("env_vars", "ATOLL_LABEL is for commands: code in a context has no label");
  }
  return success();
}

// What programs that the guest daemon starts get by themselves: files .E2B_SANDBOX_ID and others like it.
std::string identity(const std::string& directory, std::string_view name) {
  return sys::read_file(fmt::format("{}/.{}", directory, name), kMaxIdentity).value_or("");
}
void add_identity(const std::string& directory, Environment& environment) {
  for (const char* name : {"E2B_SANDBOX", kSandboxVariable, "E2B_TEMPLATE_ID", "E2B_TEAM_ID"}) {
    std::string text = identity(directory, name);
    if (!text.empty()) environment.emplace(name, std::move(text));
  }
}

Error no_context(std::string_view id) {
  return make_error(Code::kNotFound, "Context {} not found", printable(id.substr(0, kMaxShown)));
}

// In a list for as long as it lives.
class Registered {
 public:
  Registered(std::list<Stream*>& list, Stream& stream)
      : list_(list), place_(list.insert(list.end(), &stream)) {}
  ~Registered() { list_.erase(place_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  std::list<Stream*>& list_;
  std::list<Stream*>::iterator place_;
};

Task<Result<net::StreamPtr>> dial(net::Endpoint endpoint) {
  net::ConnectOptions options;
  co_return co_await net::connect_tcp(std::move(endpoint), options);
}

}  // namespace

Server::Server(async::Executor executor, ProcessTable& processes, Options options)
    : executor_(executor),
      options_(std::move(options)),
      host_{executor, processes, options_.run_directory, options_.environment, options_.interrupt_limit},
      handler_([this](Exchange& exchange) { return handle(exchange); }),
      guest_daemon_(http::make_client([this] { return dial(options_.guest_daemon); })),
      connections_(executor),
      work_done_(executor),
      warmed_(executor) {
  limits_.connections = kMaxConnections;
}

Server::~Server() = default;

Task<> Server::run(std::unique_ptr<net::Listener> listener) {
  listener_ = listener.get();
  for (const char* language : {"python", "javascript"}) {
    auto context = add_default(language);
    if (!context.ok()) continue;
    // The others wait for their first call: a kernel that nobody uses costs memory.
    if (defaults_.size() == 1) connections_.spawn("warm up", warm_up(*context));
  }
  warm_ = defaults_.empty();
  for (;;) {
    auto stream = co_await listener->accept();
    if (!stream.ok()) {
      if (stream.error().code() == Code::kCancelled) break;
      log::warn("accept failed", {{"why", stream.error().message()}});
      continue;
    }
    if (connections_.size() >= limits_.connections) continue;
    connections_.spawn("connection", serve_connection(std::move(*stream)));
  }
  listener_ = nullptr;
}

Task<> Server::warm_up(ContextPtr context) {
  Work work(*this);
  auto ready = co_await context->warm_up();
  if (!ready.ok()) log::warn("the default context does not start", {{"why", ready.error().message()}});
  warm_ = true;
  warmed_.notify_all();
}

// Also when the default context does not start: each call will say why, and nothing comes of waiting.
Task<> Server::serve_ready(Exchange& exchange) {
  while (!warm_ && !stopping_) co_await warmed_.wait();
  if (stopping_)
    co_await respond_text(exchange, 503, "the code interpreter is shutting down");
  else
    co_await respond_json(exchange, 200, "\"OK\"");
}

Task<> Server::serve_connection(net::StreamPtr stream) {
  co_await http::serve_http1(std::move(stream), std::string(), false, limits_, handler_);
}

Task<> Server::shut_down() {
  stopping_ = true;
  warmed_.notify_all();
  if (listener_ != nullptr) listener_->close();
  async::Scope patience(executor_);
  patience.spawn("last words", cut_off_clients());
  for (const ContextPtr& context : std::vector<ContextPtr>(contexts_)) co_await context->close();
  contexts_.clear();
  while (works_ > 0) co_await work_done_.wait();
  patience.cancel();
  co_await patience.join();
  connections_.cancel();
  co_await connections_.join();
  guest_daemon_->close_idle();
}

Task<> Server::cut_off_clients() {
  auto until = Steady::now() + options_.client_last_words;
  while (works_ > 0 && Steady::now() < until) co_await work_done_.wait_until(until);
  for (Stream* stream : std::list<Stream*>(streams_)) stream->cut_off();
}

void Server::note_use(const ContextInfo& context) {
  bool is_default = value_of(defaults_, context.language) == context.id;
  if (!is_default || !noted_.insert(context.language).second) return;
  auto noted = interpreter::note_use(options_.run_directory, context.language);
  if (!noted.ok()) log::warn("an end of this program would not be told", {{"why", noted.error().message()}});
}

Task<> Server::handle(Exchange& exchange) {
  std::string path(exchange.request().path());
  const std::string& method = exchange.request().method;
  if (path == "/execute" && method == "POST")
    co_await serve_execute(exchange);
  else if (path == "/health" && method == "GET")
    co_await respond_json(exchange, 200, "\"OK\"");
  else if (path == "/ready" && method == "GET")
    co_await serve_ready(exchange);
  else if (path == "/contexts" && method == "GET")
    co_await respond_json(exchange, 200, list_json(contexts_));
  else if (path == "/contexts" && method == "POST")
    co_await serve_create(exchange);
  else if (path.starts_with(kContexts))
    co_await serve_context(exchange, method, std::string_view(path).substr(kContexts.size()));
  else
    co_await respond_text(exchange, 404, "no such path here");
}

Result<Server::ExecuteRequest> Server::parse_execute(std::string_view text) {
  TRY(auto message, parse_message(text));
  Fields fields(message);
  ExecuteRequest out;
  out.call.code = fields.text("code");
  out.context = fields.text("context_id");
  out.language = fields.text("language");
  out.call.environment = fields.text_map("env_vars", kMaxVariables);
  TRY_VOID(check_environment(out.call.environment, fields));
  if (!fields.has("code")) fields.fail("code", "must be given");
  if (fields.failure()) return *fields.failure();
  if (!out.context.empty() && !out.language.empty())
    return make_error(Code::kInvalid, "Only one of context_id or language can be provided");
  return out;
}

Result<ContextPtr> Server::find(const ExecuteRequest& request) {
  std::string id = request.context;
  std::string language = language_name(request.language);
  if (id.empty() && defaults_.contains(language)) id = defaults_[language];
  auto found = std::find_if(contexts_.begin(), contexts_.end(),
                            [&](const ContextPtr& context) { return context->info().id == id; });
  if (found != contexts_.end()) {
    if ((*found)->waiting() >= kMaxQueued)
      return make_error(Code::kExhausted, "{} calls wait in this context already", kMaxQueued);
    return *found;
  }
  if (!request.context.empty()) return no_context(request.context);
  return add_default(language);
}

Result<ContextPtr> Server::add_default(const std::string& language) {
  TRY(ContextPtr made, add(language, options_.home));
  defaults_[language] = made->info().id;
  if (options_.forgotten.erase(language) > 0) made->lost_kernel("the code interpreter had ended");
  return made;
}

Result<ContextPtr> Server::add(const std::string& language, std::string directory) {
  if (stopping_) return make_error(Code::kUnavailable, "the code interpreter is shutting down");
  if (contexts_.size() >= options_.max_contexts)
    return make_error(Code::kExhausted, "there are {} contexts already", options_.max_contexts);
  TRY(KernelSpec spec, find_kernel(options_.places, language));
  ContextInfo info{random_uuid(), language, std::move(directory)};
  contexts_.push_back(std::make_shared<Context>(host_, std::move(spec), std::move(info)));
  return contexts_.back();
}

Task<Result<void>> Server::authorize(Exchange& exchange) {
  std::string token(exchange.request().headers.find("x-access-token").value_or(""));
  std::string sandbox = identity(options_.identity_directory, kSandboxVariable);
  if (authorized_ && sandbox == known_sandbox_ && constant_time_equal(token, known_token_.reveal()))
    co_return success();
  http::RequestHead request;
  request.method = "GET";
  request.target = "/envs";
  request.authority = "localhost";
  if (!token.empty()) request.headers.add("x-access-token", token);
  CO_TRY(auto answer,
         co_await http::fetch(guest_daemon_, std::move(request), std::string(), kMaxEnvironment));
  if (answer.head.status == 401)
    co_return make_error(Code::kUnauthenticated,
                         "this sandbox runs code only for those who have its access token");
  if (answer.head.status != 200)
    co_return make_error(Code::kUnavailable, "the guest daemon answered {} to /envs", answer.head.status);
  CO_TRY(auto message, parse_message(answer.body));
  Environment environment;
  for (const auto& entry : message) {
    if (entry.value().is_string())
      environment[std::string(entry.key())] = std::string(entry.value().get_string());
  }
  add_identity(options_.identity_directory, environment);
  globals_ = std::move(environment);
  known_token_ = Secret(std::move(token));
  known_sandbox_ = std::move(sandbox);
  authorized_ = true;
  co_return success();
}

Task<> Server::serve_execute(Exchange& exchange) {
  auto text = co_await exchange.read_all(kMaxRequest);
  Result<ExecuteRequest> request =
      text.ok() ? parse_execute(*text) : Result<ExecuteRequest>(std::move(text).error());
  Result<void> allowed = success();
  if (request.ok()) allowed = co_await authorize(exchange);
  Result<ContextPtr> context = make_error(Code::kInternal, "not looked for");
  if (request.ok() && allowed.ok()) context = find(*request);
  if (!request.ok())
    co_await respond_failure(exchange, request.error());
  else if (!allowed.ok())
    co_await respond_failure(exchange, allowed.error());
  else if (!context.ok())
    co_await respond_failure(exchange, context.error());
  else
    co_await stream_execution(exchange, *context, std::move(request->call));
}

Task<> Server::stream_execution(Exchange& exchange, ContextPtr context, Call call) {
  Work work(*this);
  note_use(context->info());
  exchange.set_idle_limit(kClientStall);
  Stream stream(executor_, exchange);
  Registered registered(streams_, stream);
  async::Scope helpers(executor_);
  ClientWatch watch(executor_, exchange, [&] { stream.client_has_gone(); });
  stream.on_gone([&] { helpers.spawn("interrupt", context->stop(stream.gone())); });
  helpers.spawn("keepalive", stream.keep_alive());
  co_await context->execute(std::move(call), globals_, stream.gone(), stream);
  co_await stream.end();
  co_await watch.stop();
  helpers.cancel();
  co_await helpers.join();
  if (!stream.gone()) co_await finish(exchange);
}

Task<> Server::serve_create(Exchange& exchange) {
  auto text = co_await exchange.read_all(kMaxRequest);
  Result<ContextPtr> made = make_error(Code::kInvalid, "the request could not be read");
  if (text.ok()) {
    auto message = parse_message(*text);
    if (message.ok()) {
      Fields fields(*message);
      std::string language = language_name(fields.text("language"));
      std::string directory = fields.text("cwd");
      if (directory.empty()) directory = options_.home;
      bool bad = directory.front() != '/' || directory.find('\0') != std::string::npos;
      if (bad) fields.fail("cwd", "must be an absolute path without NUL bytes");
      made = fields.failure() ? Result<ContextPtr>(*fields.failure()) : add(language, std::move(directory));
    } else {
      made = message.error();
    }
  }
  if (!made.ok()) {
    co_await respond_failure(exchange, made.error());
    co_return;
  }
  ContextPtr context = *made;
  Work work(*this);
  ClientWatch watch(executor_, exchange, [] {});
  auto ready = co_await context->warm_up();
  // Of one whose client has left nobody knows the name.
  bool kept = ready.ok() && !watch.gone();
  if (!kept) {
    std::erase(contexts_, context);
    // Others may wait in it already, and must not start what nobody would end.
    co_await context->close();
  }
  co_await watch.stop();
  if (!ready.ok()) co_await respond_failure(exchange, ready.error());
  if (!kept) co_return;
  co_await respond_json(exchange, 200, context_json(context->info()));
}

Task<> Server::serve_context(Exchange& exchange, std::string_view method, std::string_view rest) {
  bool restart = method == "POST" && rest.ends_with(kRestart);
  bool remove = method == "DELETE" && rest.find('/') == std::string_view::npos;
  std::string id(restart ? rest.substr(0, rest.size() - kRestart.size()) : rest);
  auto found = std::find_if(contexts_.begin(), contexts_.end(),
                            [&](const ContextPtr& context) { return context->info().id == id; });
  if ((!restart && !remove) || found == contexts_.end()) {
    co_await respond_failure(exchange, no_context(id));
    co_return;
  }
  ContextPtr context = *found;
  Work work(*this);
  Result<void> done = success();
  if (restart) {
    done = co_await context->restart();
  } else {
    contexts_.erase(found);
    std::erase_if(defaults_, [&](const auto& entry) { return entry.second == id; });
    co_await context->close();
  }
  if (done.ok())
    co_await respond_json(exchange, 200, "null");
  else
    co_await respond_failure(exchange, done.error());
}

}  // namespace atl::guest::interpreter
