// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/asking.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "gateway/approvals/summary.h"
#include "gateway/token/text.h"
#include "gateway/upstream/hop_by_hop.h"

namespace atl::gateway {

using async::Task;

http::Headers as_sent(const http::Headers& received) {
  http::Headers out = received;
  for (const std::string& option : connection_options(received)) {
    if (option != "upgrade" && option != "te") out.remove(option);
  }
  for (const auto& field : received) {
    bool kept = field.name == "connection" || field.name == "upgrade" || field.name == "te";
    if (!kept && is_for_one_hop(field.name)) out.remove(field.name);
  }
  token::remove_tokens(out);
  return out;
}

Question question_about(const Inbound& in, bool secure, const http::Exchange& exchange,
                        const std::optional<HeldBody>& body, const policy::AskedBy& asked) {
  http::RequestHead head = exchange.request();
  head.headers = as_sent(head.headers);
  ExactRequest exact;
  exact.tenant = in.sandbox->tenant;
  exact.sandbox = in.sandbox->id;
  exact.generation = in.sandbox->generation;
  exact.label = in.label;
  exact.secure = secure;
  exact.authority = in.dialled.text();
  exact.head = &head;
  if (body) exact.body = body->bytes;
  exact.trailers = &exchange.request_trailers();
  Question out;
  out.tenant = in.sandbox->tenant;
  out.sandbox = in.sandbox->id;
  out.generation = in.sandbox->generation;
  out.label = in.label;
  out.rule = asked.rule;
  out.fingerprint = fingerprint_of(exact);
  out.method = exchange.request().method;
  out.url = shown_url(exact);
  out.summary = summary_of(exact);
  out.lasts = std::chrono::seconds(asked.terms.expire_seconds);
  return out;
}

Task<Waited> wait_for_person(Approvals& approvals, Approvals::RowPtr row, http::Exchange& exchange,
                             async::Event& rules, Steady::time_point until) {
  using namespace async::asio::experimental::awaitable_operators;
  exchange.set_idle_limit(Steady::duration::zero());  // nobody says anything meanwhile
  auto first =
      co_await (approvals.wait(std::move(row), until) || exchange.wait_client_gone() || rules.wait());
  exchange.set_idle_limit(http::ServerLimits().body_idle);
  co_return static_cast<Waited>(first.index());
}

}  // namespace atl::gateway
