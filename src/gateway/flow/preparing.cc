// SPDX-License-Identifier: Apache-2.0
//
// The part of HttpFlow that makes of a request what goes out.
#include <algorithm>

#include "gateway/flow/running.h"
#include "gateway/token/text.h"
#include "gateway/upstream/request_head.h"

namespace atl::gateway {
namespace {

using async::Task;
using Verdict = policy::RequestDecision::Verdict;

constexpr int kMostGatherings = 3;  // of what may change while it is gathered

// As Host has it: without the port that belongs to the scheme.
std::string host_text(const Authority& authority, bool secure) {
  return authority.port == usual_port(secure) ? authority.host.text() : authority.text();
}

// Of a decision that does not let a request through.
Error denial(const policy::RequestDecision& decision) {
  policy::Refusal refusal = decision.refusal;
  if (decision.verdict == Verdict::kAsk)
    refusal = {decision.asked->rule, "a person must approve this request by now", "send it again"};
  return make_error(Code::kDenied, "{}", refusal.reason).with_word(refusal.rule).with_hint(refusal.hint);
}

bool is_hashed(const std::vector<vault::CredentialPtr>& credentials, const http::RequestHead& named) {
  return std::any_of(credentials.begin(), credentials.end(),
                     [&](const auto& one) { return vault::needs_body_hash(*one, named); });
}

}  // namespace

http::RequestHead HttpFlow::named(const Running& run) const {
  http::RequestHead out = run.exchange.request();
  out.authority = host_text(run.in.dialled, origin_.secure);
  return out;
}

Result<void> HttpFlow::check_length(Running& run, const policy::RequestDecision& decision) {
  run.sending.most = decision.max_body_bytes.value_or(UINT64_MAX);
  auto length = run.exchange.request().content_length;
  if (run.body) length = run.body->bytes.size();
  if (!length || *length <= run.sending.most) return success();
  return make_error(Code::kTooLarge, "the body is larger than the {} bytes that a rule allows",
                    run.sending.most);
}

Result<void> HttpFlow::check_fresh(const Running& run, const policy::RequestDecision& decision) const {
  bool sensitive = !run.ingredients.credentials.empty() || !decision.set_headers.empty() ||
                   !run.ingredients.placeholders.all.empty();
  if (!sensitive || parts_.registry.fresh()) return success();
  return make_error(Code::kUnavailable, "it is not known whether the sandbox runs; no credential is used")
      .with_word("state_unknown");
}

// Everything that is waited for, at the pace of the client and of token endpoints.
Task<Result<void>> HttpFlow::gather(Running& run, const policy::RequestDecision& decision) {
  const http::RequestHead& request = run.exchange.request();
  CO_TRY_VOID(check_length(run, decision));
  CO_TRY(run.ingredients, find_ingredients(parts_, run.in, origin_.secure, request, decision));
  CO_TRY_VOID(check_fresh(run, decision));
  const Placeholders& placeholders = run.ingredients.placeholders;
  CO_TRY_VOID(vault::check_encoding(request, placeholders.all));
  bool collected = request.has_body && placeholders.searches_body() && request.content_length &&
                   *request.content_length <= kMaxCollectedBody;
  if (!run.body && (collected || is_hashed(run.ingredients.credentials, run.named))) {
    auto most = std::min<std::uint64_t>(kMaxSignedBody, run.sending.most);
    CO_TRY(run.body, co_await hold(run, static_cast<std::size_t>(most)));
  }
  co_return co_await fetch_tokens(parts_, run.ingredients);
}

// What goes out, with everything that is put in. First all waiting; then, in one moment, the decision: a
// client that sends its body slowly must not use what was taken away meanwhile.
Task<Result<void>> HttpFlow::prepare(Running& run, policy::RequestDecision decision) {
  run.named = named(run);
  for (int i = 0; i < kMostGatherings; ++i) {
    CO_TRY_VOID(co_await gather(run, decision));
    if (run.was_cut) co_return not_running("resting");
    CO_TRY(decision, judge_now(run));
    bool granted = decision.verdict == Verdict::kAsk && run.grant;
    if (decision.verdict != Verdict::kAllow && !granted) co_return denial(decision);
    CO_TRY(Ingredients now,
           find_ingredients(parts_, run.in, origin_.secure, run.exchange.request(), decision));
    if (same(now, run.ingredients)) co_return make_head(run, std::move(decision));
  }
  co_return make_error(Code::kUnavailable, "the credentials of this host change again and again")
      .with_word("credential_changed")
      .with_hint("send the request again");
}

// Where the head depends on the body. Its hash, where one is needed.
Result<std::string> HttpFlow::finish_body(Running& run) {
  const http::RequestHead& named = run.named;
  const Placeholders& placeholders = run.ingredients.placeholders;
  bool searched = named.has_body && placeholders.searches_body();
  if (run.body && searched) {
    TRY(std::string resolved, resolve_body(placeholders, named, run.body->bytes));
    TRY_VOID(run.body->replace(std::move(resolved)));
  } else if (searched) {
    run.sending.resolver = make_body_resolver(placeholders, named);
    run.sending.may_resolve = [this, &run] { return still_carries(run); };
  }
  if (run.body && is_hashed(run.ingredients.credentials, named)) return hex_sha256(run.body->bytes);
  return std::string();
}

Result<void> HttpFlow::make_head(Running& run, policy::RequestDecision decision) {
  const http::RequestHead& request = run.exchange.request();
  TRY_VOID(check_length(run, decision));
  TRY_VOID(check_fresh(run, decision));
  TRY(std::string digest, finish_body(run));
  const Ingredients& from = run.ingredients;
  TRY(run.injection, make_injection(parts_, run.in, origin_.secure, from.credentials, from.tokens,
                                    decision.set_headers, std::move(digest), run.named));
  add_placeholders(parts_, from.placeholders, run.injection);
  run.sending.injected = run.injection.header_names();
  bool as_spelled = run.injection.empty() || !paths_matter(parts_, run.in, origin_.secure, request);
  RequestRules rules{run.in.dialled, origin_.secure, !run.injection.empty(), run.sending.injected,
                     as_spelled};
  TRY(run.request, prepare_request(request, rules));
  token::remove_tokens(run.request.headers);
  TRY_VOID(vault::resolve_head(run.request, from.placeholders.all));
  TRY_VOID(vault::inject(run.request, run.injection.changes));
  if (run.body) run.request.content_length = run.body->bytes.size();
  if (run.sending.resolver) run.request.content_length.reset();
  run.decision = std::move(decision);
  return success();
}

// Whether all that the request carries might be put into it at this moment, too.
bool HttpFlow::still_carries(const Running& run) const {
  if (run.injection.empty()) return true;
  auto now = find_ingredients(parts_, run.in, origin_.secure, run.exchange.request(), run.decision);
  bool bound = now.ok() && same(*now, run.ingredients);
  // Those that headers of rules name, too.
  auto newest = [this](const vault::CredentialPtr& one) {
    auto known = parts_.vault.info(one->row.tenant, one->row.id);
    return known.ok() && known->version == one->row.version;
  };
  const auto& all = run.injection.credentials;
  return bound && parts_.registry.fresh() && std::all_of(all.begin(), all.end(), newest);
}

}  // namespace atl::gateway
