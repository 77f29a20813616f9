// SPDX-License-Identifier: Apache-2.0
#include "ingress/gateway.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "async/within.h"
#include "base/patience.h"
#include "base/text.h"
#include "ingress/headers.h"
#include "ingress/relay.h"
#include "model/guest_boot.h"

namespace atl::ingress {
namespace {

constexpr std::size_t kKeptPorts = 32;           // ports per sandbox whose connections are kept
constexpr std::size_t kShortAnswer = 16 * 1024;  // bytes of an answer that is sent in one piece

// One request is counted and reachable by sandbox_gone for as long as this lives.
class Registration {
 public:
  Registration(std::shared_ptr<SandboxLinks> links, Flow& flow, std::size_t& active,
               std::shared_ptr<control::Activity> activity)
      : links_(std::move(links)),
        place_(links_->flows.insert(links_->flows.end(), &flow)),
        active_(active),
        work_(std::move(activity)) {
    ++active_;
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    links_->flows.erase(place_);
    --active_;
  }

 private:
  std::shared_ptr<SandboxLinks> links_;
  std::list<Flow*>::iterator place_;
  std::size_t& active_;
  control::Activity::Request work_;
};

// Ends only by cancellation.
Task<> park() {
  async::asio::steady_timer never(co_await async::asio::this_coro::executor, Steady::time_point::max());
  co_await never.async_wait(async::use_result);
}

Task<> watch_client(Flow& flow) {
  co_await flow.exchange.wait_client_gone();
  auto cancelled = (co_await async::asio::this_coro::cancellation_state).cancelled();
  if (cancelled != async::asio::cancellation_type::none) co_return;
  if (!flow.answered) {
    flow.client_gone = true;
    flow.drop_guest();
  }
  co_await park();
}

// Completes when nobody is left to answer.
Task<> client_leaves(Flow& flow) {
  co_await flow.exchange.wait_client_gone();
  auto cancelled = (co_await async::asio::this_coro::cancellation_state).cancelled();
  flow.client_gone = cancelled == async::asio::cancellation_type::none;
}

Task<> send_request_body(Flow& flow) {
  if (flow.exchange.request().has_body) co_await relay_request_body(flow);
  co_await park();
}

// True when the guest daemon says that only a little follows. Of other services it cannot be known when it
// comes.
bool is_short_answer(const http::ResponseHead& head, const http::RequestHead& request, std::uint16_t port) {
  if (port != model::kGuestPort || request.method == "HEAD") return false;
  auto length = parse_number<std::size_t>(head.headers.find("content-length").value_or(""));
  return length && *length <= kShortAnswer;
}

// Calls of the process service get their answer's head at once, however long the answer then goes on.
// Not so input: it waits until the process has read it.
bool is_answered_at_once(const http::RequestHead& request, std::uint16_t port) {
  constexpr std::string_view kProcess = "/process.Process/";
  auto path = request.path();
  if (port != model::kGuestPort || !request.content_length || !path.starts_with(kProcess)) return false;
  auto method = path.substr(kProcess.size());
  return method != "SendInput" && method != "StreamInput";
}

http::ClientLimits client_limits(std::size_t max_idle) {
  http::ClientLimits limits;
  limits.max_idle = max_idle;
  limits.idle_timeout = std::chrono::seconds(30);
  return limits;
}

std::shared_ptr<http::Client> make_port_client(PortDial how, std::size_t max_idle) {
  auto connector = [how = std::move(how)] { return open_port(how); };
  return http::make_client(std::move(connector), client_limits(max_idle));
}

}  // namespace

Gateway::Gateway(control::Directory& directory, Options options)
    : directory_(directory), options_(std::move(options)) {
  options_.domain = options_.domain.substr(0, options_.domain.find(':'));
  gone_subscription_ = directory_.on_gone(
      [this](std::string_view sandbox, std::uint64_t generation) { sandbox_gone(sandbox, generation); });
}

bool Gateway::wants(const http::RequestHead& request) const {
  return !std::holds_alternative<NotIngress>(route_request(request, options_.domain));
}

Gateway::Verdict Gateway::admit(const http::RequestHead& request) const {
  auto routing = route_request(request, options_.domain);
  if (auto* bad = std::get_if<BadTarget>(&routing)) return bad_request(bad->message);
  if (auto* target = std::get_if<Target>(&routing)) {
    return admit_route(request, target->sandbox, directory_.find(target->sandbox), target->port);
  }
  if (auto* file = std::get_if<SignedFile>(&routing)) {
    auto route = directory_.find_by_signature(file->path, file->operation, file->user, file->expiration,
                                              file->signature);
    // The guest daemon's own words: the caller cannot tell which sandbox was not found.
    if (!route) return Refusal{401, {}, "invalid signature", {}};
    auto sandbox = route->sandbox;
    return admit_route(request, sandbox, std::move(route), model::kGuestPort);
  }
  return bad_request("the request names no sandbox");
}

Gateway::Verdict Gateway::admit_route(const http::RequestHead& request, const std::string& sandbox,
                                      control::RoutePtr route, std::uint16_t port) const {
  if (!route) return not_found(sandbox);
  bool asleep = route->auto_resume && route->state != model::State::kRunning;
  switch (route->state) {
    case model::State::kRunning: break;
    case model::State::kPaused:
      if (!asleep) return not_found(sandbox);
      break;
    case model::State::kPausing:
    case model::State::kResuming:
      if (!asleep) return state_changing(sandbox);
      break;
    case model::State::kCreating: return state_changing(sandbox);
    default: return not_found(sandbox);
  }
  if (port != model::kGuestPort && !route->traffic_token.empty()) {
    auto given = request.headers.find("e2b-traffic-access-token");
    if (!given) return traffic_token_missing(sandbox);
    bool once = request.headers.count("e2b-traffic-access-token") == 1;
    if (!once || !route->traffic_token.matches(*given)) return traffic_token_wrong(sandbox);
  }
  if (request.method == "CONNECT" || (port == model::kGuestPort && is_internal_path(request.path()))) {
    return Refusal{404, sandbox, "There is nothing at this address", {}};
  }
  if (full(sandbox)) return too_many_connections(sandbox);
  if (asleep) return Asleep{sandbox};
  return Admission{std::move(route), port};
}

// Whoever asks: the token of the traffic was right, and it is the sandbox's owner who said that traffic wakes
// it. The request's body stays where it is until then.
Task<Gateway::Verdict> Gateway::wake_and_admit(const http::RequestHead& request, std::string sandbox) {
  auto woken = co_await wake(sandbox);
  if (!woken) {
    if (woken.error().code() == Code::kNotFound) co_return not_found(sandbox);
    co_return not_woken(sandbox, woken.error());
  }
  auto verdict = admit(request);
  if (std::holds_alternative<Asleep>(verdict)) co_return state_changing(sandbox);  // paused again at once
  co_return verdict;
}

// What waits counts like what is under way.
Task<Result<control::RoutePtr>> Gateway::wake(std::string sandbox) {
  struct Waiting {
    Waiting(Gateway& g, const std::string& id) : gateway(g), mine(g.waking_.try_emplace(id).first) {
      ++gateway.active_;
      ++mine->second;
    }
    ~Waiting() {
      --gateway.active_;
      if (--mine->second == 0) gateway.waking_.erase(mine);
    }
    Gateway& gateway;
    std::unordered_map<std::string, std::size_t>::iterator mine;
  } waiting(*this, sandbox);
  co_return co_await async::within(patient(options_.wake_limit), "waking the sandbox",
                                   directory_.wake(sandbox));
}

bool Gateway::full(const std::string& sandbox) const {
  if (active_ >= options_.requests) return true;
  auto links = links_.find(sandbox);
  auto waking = waking_.find(sandbox);
  std::size_t count = links == links_.end() ? 0 : links->second->flows.size();
  if (waking != waking_.end()) count += waking->second;
  return count >= options_.requests_per_sandbox;
}

std::shared_ptr<SandboxLinks> Gateway::links_of(const control::Route& route) {
  auto& links = links_[route.sandbox];
  if (links && links->generation != route.generation) {
    sandbox_gone(route.sandbox, links->generation);
    return links_of(route);
  }
  if (!links) {
    links = std::make_shared<SandboxLinks>();
    links->generation = route.generation;
  }
  return links;
}

std::shared_ptr<http::Client> Gateway::kept_client(SandboxLinks& links, const Admission& admission) {
  auto& client = links.clients[admission.port];
  if (client) return client;
  PortDial how{options_.dial, admission.route,        admission.port,
               nullptr,       options_.refused_retry, options_.agent_silence};
  if (admission.port != model::kGuestPort) {
    how.guest_daemon = kept_client(links, Admission{admission.route, model::kGuestPort});
  }
  client = make_port_client(std::move(how), 8);
  return client;
}

// A kept connection may turn out dead after the request was sent. The guest daemon keeps its own open longer
// than we do; of other services we know nothing, so what must not run twice gets a new connection.
std::shared_ptr<http::Client> Gateway::client_for(SandboxLinks& links, const Admission& admission,
                                                  const http::RequestHead& request) {
  bool repeatable = !request.has_body &&
                    (request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS");
  bool known = links.clients.contains(admission.port) || links.clients.size() < kKeptPorts;
  if (admission.port == model::kGuestPort || (repeatable && known)) return kept_client(links, admission);
  auto guest_daemon = kept_client(links, Admission{admission.route, model::kGuestPort});
  PortDial how{options_.dial,           admission.route,        admission.port,
               std::move(guest_daemon), options_.refused_retry, options_.agent_silence};
  return make_port_client(std::move(how), 0);
}

Task<> Gateway::handle(http::Exchange& exchange) {
  auto verdict = admit(exchange.request());
  if (auto* asleep = std::get_if<Asleep>(&verdict)) {
    auto sandbox = asleep->sandbox;
    verdict = co_await wake_and_admit(exchange.request(), std::move(sandbox));
  }
  if (auto* refusal = std::get_if<Refusal>(&verdict)) {
    co_await refuse(exchange, std::move(*refusal));
    co_return;
  }
  auto admission = std::get<Admission>(std::move(verdict));
  auto links = links_of(*admission.route);
  Flow flow(exchange);
  Registration registration(links, flow, active_, admission.route->activity);
  co_await forward(flow, *links, admission);
}

Task<> Gateway::forward(Flow& flow, SandboxLinks& links, const Admission& admission) {
  using namespace async::asio::experimental::awaitable_operators;
  auto request = guest_request(flow.exchange.request(), *admission.route, admission.port);
  if (!request) {
    co_await refuse(flow.exchange, bad_request("the path is not decodable"));
    co_return;
  }
  flow.exchange.set_idle_limit(kClientIdle);
  auto client = client_for(links, admission, *request);
  auto started = co_await (client->start(std::move(*request)) || client_leaves(flow));
  if (started.index() == 1) {
    flow.exchange.abort();
    co_return;
  }
  auto& upstream = std::get<0>(started);
  if (!upstream && upstream.error().word() == kAgentSilent && !flow.sandbox_gone) {
    co_await refuse(flow.exchange, agent_silent(admission.route->sandbox));
    co_return;
  }
  if (!upstream || flow.sandbox_gone) {
    co_await refuse(flow.exchange, explain(flow, admission));
    co_return;
  }
  flow.upstream = std::move(*upstream);
  flow.upstream->set_idle_limit(Steady::duration::zero());
  co_await (answer(flow, admission) || send_request_body(flow) || watch_client(flow));
  if (flow.switching) co_await switch_protocol(flow, admission);
}

Task<Result<http::ResponseHead>> Gateway::read_head(Flow& flow, const Admission& admission) {
  auto head = flow.upstream->read_head();
  if (!is_answered_at_once(flow.exchange.request(), admission.port)) co_return co_await std::move(head);
  co_return co_await async::within(options_.agent_silence, "the guest daemon", std::move(head));
}

Task<> Gateway::answer(Flow& flow, const Admission& admission) {
  auto head = co_await read_head(flow, admission);
  if (flow.client_gone) {
    flow.exchange.abort();
    co_return;
  }
  bool unasked_switch =
      head.ok() && head->status == 101 && upgrade_wanted(flow.exchange.request(), admission.port).empty();
  if (!head && head.error().code() == Code::kDeadline && !flow.sandbox_gone) {
    flow.drop_guest();
    co_await refuse(flow.exchange, agent_silent(admission.route->sandbox));
    co_return;
  }
  if (!head || flow.sandbox_gone || unasked_switch) {
    co_await refuse(flow.exchange, explain(flow, admission));
    co_return;
  }
  if (head->status == 101) {
    flow.switching = std::move(*head);
    co_return;
  }
  auto out = client_response(*head, admission.port);
  if (is_short_answer(*head, flow.exchange.request(), admission.port)) {
    co_await answer_whole(flow, admission, std::move(out));
    co_return;
  }
  auto sent = co_await flow.exchange.send_head(std::move(out));
  if (!sent) {
    flow.drop_guest();
    co_return;
  }
  co_await relay_response_body(flow);
}

// Head and body in one write: most calls of the guest daemon have small answers.
Task<> Gateway::answer_whole(Flow& flow, const Admission& admission, http::ResponseHead head) {
  auto body = co_await flow.upstream->read_all(kShortAnswer);
  if (!body || flow.sandbox_gone) {
    co_await refuse(flow.exchange, explain(flow, admission));
    co_return;
  }
  flow.answered = true;
  (void)co_await flow.exchange.respond(std::move(head), std::move(*body));
}

Task<> Gateway::switch_protocol(Flow& flow, const Admission& admission) {
  auto client = co_await flow.exchange.upgrade(client_response(*flow.switching, admission.port));
  if (!client || flow.sandbox_gone) {
    flow.drop_guest();
    flow.exchange.abort();
    co_return;
  }
  auto guest = flow.upstream->take_stream();
  co_await relay_raw(flow, **client, *guest);
}

Refusal Gateway::explain(const Flow& flow, const Admission& admission) const {
  const auto& sandbox = admission.route->sandbox;
  auto now = directory_.find(sandbox);
  if (flow.sandbox_gone || !now || now->generation != admission.route->generation) return not_found(sandbox);
  if (flow.body_broken) return bad_request("the request body is malformed");
  return flow.upstream ? no_answer(sandbox, admission.port) : port_closed(sandbox, admission.port);
}

void Gateway::sandbox_gone(std::string_view sandbox, std::uint64_t generation) {
  auto found = links_.find(std::string(sandbox));
  if (found == links_.end() || found->second->generation > generation) return;
  auto links = std::move(found->second);
  links_.erase(found);
  for (auto* flow : links->flows) flow->break_off();
  for (auto& [port, client] : links->clients) client->close_idle();
  links->clients.clear();
}

}  // namespace atl::ingress
