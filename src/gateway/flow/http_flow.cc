// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/http_flow.h"

#include <algorithm>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/log.h"
#include "gateway/flow/asking.h"
#include "gateway/flow/bodies.h"
#include "gateway/flow/refusal.h"
#include "gateway/flow/running.h"
#include "gateway/flow/websocket.h"
#include "gateway/upstream/answer_body.h"
#include "gateway/upstream/answer_head.h"
#include "gateway/upstream/request_head.h"
#include "net/relay.h"

namespace atl::gateway {
namespace {

using async::Task;
using Verdict = policy::RequestDecision::Verdict;

}  // namespace

Error not_running(std::string_view state) {
  return make_error(Code::kConflict, "the sandbox is {}: nothing new goes out", state)
      .with_word("not_running")
      .with_hint("ask again when it runs");
}

// For whom the request is: one answer, or none.
Result<Inbound> HttpFlow::address(const http::RequestHead& request) const {
  // HTTP/2 has a scheme in each request, and clients that set it carelessly.
  if (!request.scheme.empty() && request.version < 20 && (request.scheme == "https") != origin_.secure) {
    return make_error(Code::kInvalid, "the target says {}:// and the connection does not", request.scheme)
        .with_word("misdirected");
  }
  AuthorityClaims claims;
  if (!origin_.proxy) claims.dialled = in_.dialled;
  if (origin_.sni) claims.sni = *origin_.sni;
  if (!request.authority.empty()) claims.host = request.authority;
  claims.default_port = usual_port(origin_.secure);
  Inbound in = in_;
  TRY(in.dialled, agree(claims));
  in.sandbox = parts_.registry.find(in_.sandbox->id);
  if (!in.sandbox || in.sandbox->generation != in_.sandbox->generation) return not_running("gone");
  if (in.sandbox->state != model::State::kRunning) return not_running(model::state_name(in.sandbox->state));
  return in;
}

Task<> HttpFlow::refuse(http::Exchange& exchange, int status, policy::Refusal refusal) {
  HttpRefusal answer = http_refusal(status, refusal);
  (void)co_await exchange.respond(std::move(answer.head), std::move(answer.body));
}

// Denials of ours are 403 (421 where places disagree, 423 while the sandbox rests); failures of the upstream
// keep their own status.
Task<> HttpFlow::refuse(Running& run, const Error& error) {
  bool ours = error.code() == Code::kInvalid || error.word() == "method_refused";
  int status = ours ? refusal_status(error) : upstream_status(error);
  if (error.word() == "misdirected") status = 421;
  if (error.word() == "not_running") status = 423;
  // Clients try those again.
  if (error.code() == Code::kExhausted || error.word() == "credential_changed") status = 503;
  if (error.word() == "body_too_slow") status = 408;
  policy::Refusal refusal{std::string(error.word()), error.message(), error.hint()};
  bool denied = error.code() == Code::kDenied || error.code() == Code::kUnauthenticated;
  if (denied || error.word() == "body_memory")
    parts_.events.denied(*run.in.sandbox, run.in.dialled.text(), refusal, run.in.label);
  if (run.exchange.head_sent()) {
    run.exchange.abort();
    co_return;
  }
  co_await refuse(run.exchange, status, std::move(refusal));
}

Task<> HttpFlow::handle(http::Exchange& exchange) {
  auto in = address(exchange.request());
  if (!in) {
    Running run(exchange, in_);
    co_await refuse(run, in.error());
    co_return;
  }
  co_await serve(exchange, std::move(*in));
}

void HttpFlow::cut(Running& run) {
  SandboxPtr now = parts_.registry.find(run.in.sandbox->id);
  bool pausing = now && now->generation == run.in.sandbox->generation && now->state == model::State::kPausing;
  if (pausing && !run.was_cut && !run.held)
    parts_.events.add(*run.in.sandbox, "egress.cut_by_pause", run.in.dialled.text(), "",
                      "the sandbox was paused while the request was under way", run.in.label);
  run.cut();
}

Task<> HttpFlow::serve(http::Exchange& exchange, Inbound in) {
  Running run(exchange, std::move(in));
  Flows::Entry entry;
  auto stream = origin_.secure ? policy::Stream::kTls : policy::Stream::kHttp;
  entry.may_go_on = [this, &run, stream](const SandboxPtr& now) {
    return still_allowed(now, run.in, stream) && still_let_through(now, run);
  };
  entry.request = true;
  entry.cut = [this, &run] { cut(run); };
  auto handle = parts_.flows.open(run.in.sandbox->id, std::move(entry));
  if (!handle && still_allowed(parts_.registry.find(run.in.sandbox->id), run.in, stream)) {
    co_await refuse(run, make_error(Code::kExhausted, "too many requests of this sandbox are under way")
                             .with_word("too_many_requests"));
    co_return;
  }
  if (auto shown = check_shown_token(parts_, run.in, exchange.request(), origin_.token); !shown) {
    co_await refuse(run, shown.error());
    co_return;
  }
  auto decision = co_await judge(run);
  if (!decision) {
    co_await refuse(run, decision.error());
    co_return;
  }
  if (decision->shadow)
    parts_.events.add(*run.in.sandbox, "egress.shadow", run.in.dialled.text(), decision->shadow->rule,
                      decision->shadow->verdict, run.in.label);
  if (decision->verdict == Verdict::kAsk) {
    bool goes_on = co_await ask_person(run, *decision);
    if (!goes_on) co_return;
  }
  if (decision->verdict != Verdict::kAllow && !run.grant) {
    policy::Refusal refusal = decision->refusal;
    parts_.events.denied(*run.in.sandbox, run.in.dialled.text(), refusal, run.in.label);
    co_await refuse(run.exchange, 403, std::move(refusal));
    co_return;
  }
  auto late = co_await parts_.rates.take(run.in.sandbox->id, decision->rates);
  if (late) {
    policy::Refusal refusal = rate_refusal(*late);
    parts_.events.denied(*run.in.sandbox, run.in.dialled.text(), refusal, run.in.label);
    HttpRefusal answer = http_refusal(429, refusal, late->wait);
    (void)co_await run.exchange.respond(std::move(answer.head), std::move(answer.body));
    co_return;
  }
  auto prepared = co_await prepare(run, *std::move(decision));
  if (!prepared) {
    co_await refuse(run, prepared.error());
    co_return;
  }
  if (run.grant) {
    bool used = co_await use_grant(run);
    if (!used) co_return;
  }
  co_await forward(run);
}

Task<Result<HeldBody>> HttpFlow::hold(Running& run, std::size_t most) {
  return hold_body(run.exchange, parts_.held_bodies, run.in.sandbox->id, most,
                   memory_of(parts_, *run.in.sandbox));
}

policy::RequestFacts HttpFlow::facts_of(const Running& run) const {
  const http::RequestHead& request = run.exchange.request();
  auto stream = origin_.secure ? policy::Stream::kTls : policy::Stream::kHttp;
  policy::RequestFacts facts{connection_facts(run.in, stream)};
  facts.method = request.method;
  facts.path = request.path();
  facts.query = request.query();
  facts.headers = &run.judged;
  facts.unix_seconds = parts_.clock.now().ms / 1000;
  facts.body_bytes = request.has_body ? request.content_length : std::optional<std::uint64_t>(0);
  if (run.body && !facts.body_bytes) facts.body_bytes = run.body->bytes.size();
  if (run.body && run.body->bytes.size() <= policy::kMaxJudgedBody) facts.body = run.body->bytes;
  return facts;
}

// Under other rules than those that let it through: it is judged once more.
bool HttpFlow::still_let_through(const SandboxPtr& now, const Running& run) const {
  if (run.held) return now->policy->request(facts_of(run)).verdict == Verdict::kAsk;
  if (!run.judged_by || run.judged_by == now->policy) return true;
  Verdict verdict = now->policy->request(facts_of(run)).verdict;
  return verdict == Verdict::kAllow || (verdict == Verdict::kAsk && run.grant);
}

Task<Result<policy::RequestDecision>> HttpFlow::judge(Running& run) {
  const http::RequestHead& request = run.exchange.request();
  bool small = request.content_length && *request.content_length <= policy::kMaxJudgedBody;
  if (request.has_body && small && run.in.sandbox->policy->reads_body(facts_of(run).at)) {
    CO_TRY(run.body, co_await hold(run, policy::kMaxJudgedBody));
  }
  co_return judge_now(run);
}

// By the rules of this moment: they may have changed while something was waited for.
Result<policy::RequestDecision> HttpFlow::judge_now(Running& run) {
  SandboxPtr now = parts_.registry.find(run.in.sandbox->id);
  if (!runs_on(now, *run.in.sandbox)) return not_running("resting");
  run.in.sandbox = now;  // its proxy, too
  policy::RequestDecision decision = now->policy->request(facts_of(run));
  if (decision.verdict == Verdict::kAllow || run.grant) run.judged_by = now->policy;
  return decision;
}

// A person's yes is for exact bytes, so all of them must be here. False: it was refused.
Task<bool> HttpFlow::hold_for_person(Running& run, const policy::RequestDecision& decision) {
  if (!run.exchange.request().has_body || run.body) co_return true;
  auto most = std::min<std::uint64_t>(kMaxAskedBody, decision.max_body_bytes.value_or(kMaxAskedBody));
  auto held = co_await hold(run, static_cast<std::size_t>(most));
  if (held.ok()) {
    run.body.emplace(*std::move(held));
    co_return true;
  }
  Error why = std::move(held).error();
  if (why.code() == Code::kTooLarge) {
    why = make_error(Code::kTooLarge,
                     "a person must approve this request, and its body is larger than {} bytes", most)
              .with_word("approval_body_too_large")
              .with_hint("send it in smaller parts, or ask for a rule that allows it");
    parts_.events.denied(*run.in.sandbox, run.in.dialled.text(),
                         {decision.asked->rule, why.message(), why.hint()}, run.in.label);
  }
  co_await refuse(run, why);
  co_return false;
}

// By the rules of now: nothing when a person must say yes; else whether it goes on to be judged by
// `decision`, or was answered.
Task<std::optional<bool>> HttpFlow::settle(Running& run, policy::RequestDecision& decision) {
  auto now = judge_now(run);
  if (!now.ok()) {
    co_await refuse(run, now.error());
    co_return false;
  }
  decision = *std::move(now);
  if (decision.verdict == Verdict::kAsk) co_return std::nullopt;
  run.grant = nullptr;
  co_return true;
}

// True when it goes on by `decision`, which is then of the rules of now: with run.grant, or because they no
// longer ask. Otherwise it was answered.
Task<bool> HttpFlow::ask_person(Running& run, policy::RequestDecision& decision) {
  bool whole = co_await hold_for_person(run, decision);
  if (!whole) co_return false;
  auto settled = co_await settle(run, decision);  // the size of the body may have been open
  if (settled) co_return *settled;
  policy::AskedBy asked = *decision.asked;
  Question question = question_about(run.in, origin_.secure, run.exchange, run.body, asked);
  auto row = co_await parts_.approvals.ask(std::move(question));
  if (row.ok()) co_return co_await wait_with(run, *row, decision);
  policy::Refusal refusal{asked.rule, row.error().message(), row.error().hint()};
  if (row.error().code() == Code::kExhausted) {
    parts_.events.denied(*run.in.sandbox, run.in.dialled.text(), refusal, run.in.label);
    co_await refuse(run.exchange, 403, std::move(refusal));
  } else {
    co_await refuse(run, row.error());
  }
  co_return false;
}

Task<bool> HttpFlow::wait_with(Running& run, Approvals::RowPtr row, policy::RequestDecision& decision) {
  auto until = Steady::now() + std::chrono::seconds(decision.asked->terms.hold_seconds);
  async::Event rules(co_await async::asio::this_coro::executor);
  while (true) {
    run.held = &rules;
    auto settled = co_await settle(run, decision);
    if (settled) {
      run.held = nullptr;
      co_return *settled;
    }
    Waited waited = co_await wait_for_person(parts_.approvals, row, run.exchange, rules, until);
    run.held = nullptr;
    if (waited == Waited::kGone) {
      run.exchange.abort();
      co_return false;
    }
    if (waited == Waited::kDecided) break;
  }
  if (row->approval().state != ApprovalState::kApproved) {
    co_await refuse_asked(run, row->approval());
    co_return false;
  }
  run.grant = row;
  auto settled = co_await settle(run, decision);
  co_return settled.value_or(true);
}

// Last of all, so that what is refused for another reason keeps its grant. From here on it is sent once or
// never, also when this process dies.
Task<bool> HttpFlow::use_grant(Running& run) {
  if (!parts_.registry.fresh()) {
    Error unknown =
        make_error(Code::kUnavailable, "it is not known whether the sandbox runs; no approval is used")
            .with_word("state_unknown");
    co_await refuse(run, unknown);
    co_return false;
  }
  auto used = co_await parts_.approvals.use(run.grant);
  if (used.ok() && *used && !run.was_cut) co_return true;
  if (run.was_cut)
    co_await refuse(run, not_running("resting"));
  else if (!used.ok())
    co_await refuse(run, used.error());
  else
    co_await refuse_asked(run, run.grant->approval());
  co_return false;
}

// No denial is told here: the person's is an event already, and the others are none.
Task<> HttpFlow::refuse_asked(Running& run, const Approval& approval) {
  bool runs = runs_on(parts_.registry.find(run.in.sandbox->id), *run.in.sandbox);
  HttpRefusal answer = approval_refusal(runs ? 403 : 423, approval);
  (void)co_await run.exchange.respond(std::move(answer.head), std::move(answer.body));
}

Task<> HttpFlow::forward(Running& run) {
  using namespace async::asio::experimental::awaitable_operators;
  Route route{run.in.dialled};
  route.tls = origin_.secure;
  route.credential = run.injection.id;
  // On a connection of its own: what fails on a kept one may be sent again, and a grant is for once.
  if (run.grant) route.credential += " by " + run.grant->approval().id;
  route.certificate = run.injection.certificate;
  auto stream = origin_.secure ? policy::Stream::kTls : policy::Stream::kHttp;
  choose_way(parts_, run.in, stream, route);
  // While the connection is made there is nothing that cut() could close.
  route.may_send = [this, &run, stream] {
    SandboxPtr now = parts_.registry.find(run.in.sandbox->id);
    return !run.was_cut && still_allowed(now, run.in, stream) && still_let_through(now, run) &&
           still_carries(run);
  };
  run.exchange.set_idle_limit(route.limits.idle);
  auto started = co_await parts_.upstream.start(std::move(route), run.request);
  if (!started || run.was_cut) {
    Error why = run.was_cut ? not_running("resting") : started.error();
    co_await refuse(run, why);
    co_return;
  }
  run.upstream = std::move(*started);
  run.in.note_peer(run.upstream->peer());
  if (run.body || run.exchange.request().has_body) {
    FairShare::User memory = memory_of(parts_, *run.in.sandbox);
    co_await (answer(run) ||
              send_body(run.exchange, *run.upstream, run.body, run.sending, memory, run.unsendable) ||
              watch_client(run.exchange, *run.upstream, run.answered));
  } else {
    // A task costs a good part of what the whole request does, and this one would only wait.
    co_await (answer(run) || watch_client(run.exchange, *run.upstream, run.answered));
  }
  if (run.switching) co_await switch_protocol(run);
}

Task<> HttpFlow::answer(Running& run) {
  auto head = co_await run.upstream->read_head();
  run.in.note_peer(run.upstream->peer());  // it may have been sent again
  if (!head || run.was_cut || run.unsendable) {
    Error why = head.ok() ? not_running("resting") : head.error();
    if (run.unsendable) why = *run.unsendable;
    co_await refuse(run, why);
    co_return;
  }
  if (head->status == 101) {
    run.switching = std::move(*head);
    co_return;
  }
  if (head->status == 401) reject_tokens(run);
  AnswerRules rules = answer_rules(run);
  std::string coding = content_coding(head->headers);
  auto back = prepare_answer(std::move(*head), rules);
  if (!back) {
    run.upstream->close();
    co_await refuse(run, back.error());
    co_return;
  }
  if (origin_.mount) remount(back->head.headers, run.in.dialled, origin_.secure, *origin_.mount);
  std::size_t incidents = back->incidents;
  co_await pass_body(run, std::move(back->head), coding, rules, incidents);
  tell_incidents(run, incidents);
}

// The upstream does not take them: the next request gets new ones.
void HttpFlow::reject_tokens(const Running& run) {
  const auto& tokens = run.injection.tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i]) parts_.minter.reject(*run.injection.credentials[i], tokens[i]);
  }
}

// What nothing is searched for in goes on as it is coded.
Task<> HttpFlow::pass_body(Running& run, http::ResponseHead head, std::string coding,
                           const AnswerRules& rules, std::size_t& incidents) {
  if (!rules.body_changes) coding.clear();
  auto body = AnswerBody::make(*run.upstream, coding, rules.patterns, memory_of(parts_, *run.in.sandbox));
  if (!body) {
    run.upstream->close();
    co_await refuse(run, body.error());
    co_return;
  }
  auto trailers = [&] { return prepare_answer_trailers(run.upstream->trailers(), rules, incidents); };
  auto passed = co_await pass_answer(*body, std::move(head), run.exchange, trailers);
  incidents += body->incidents();
  run.answered = passed.ok();
  if (passed.ok()) co_return;
  run.upstream->close();
  run.exchange.abort();
}

AnswerRules HttpFlow::answer_rules(const Running& run) const {
  AnswerRules rules{run.in.dialled, origin_.secure};
  rules.brokered = rules.body_changes = !run.injection.empty();
  rules.patterns = run.injection.patterns;
  return rules;
}

// WebSocket: both sides are streams from here on.
Task<> HttpFlow::switch_protocol(Running& run) {
  auto back = prepare_answer(*run.switching, answer_rules(run));
  bool accepted = back.ok() && accepts_websocket(run.request, *run.switching);
  if (!accepted) {
    run.upstream->close();
    co_await refuse(run, make_error(Code::kCorrupt, "the server answered a switch that was not asked for"));
    co_return;
  }
  auto client = co_await run.exchange.upgrade(std::move(back->head));
  if (!client || run.was_cut) {
    run.upstream->close();
    run.exchange.abort();
    co_return;
  }
  net::StreamPtr server = run.upstream->take_stream();
  run.in.note_peer(*server);
  run.raw_client = client->get();
  run.raw_server = server.get();
  FairShare::User memory = memory_of(parts_, *run.in.sandbox);
  if (!run.injection.patterns) {
    co_await net::relay(**client, *server, memory);
  } else {
    std::size_t incidents = 0;
    co_await relay_websocket(**client, *server, run.injection.patterns, memory, incidents);
    tell_incidents(run, incidents);
  }
  run.raw_client = run.raw_server = nullptr;
}

void HttpFlow::tell_incidents(const Running& run, std::size_t count) {
  if (count == 0) return;
  parts_.events.add(*run.in.sandbox, "egress.secret_in_answer", run.in.dialled.text(), run.injection.id,
                    fmt::format("{} places of an answer held a secret and were replaced", count),
                    run.in.label);
}

}  // namespace atl::gateway
