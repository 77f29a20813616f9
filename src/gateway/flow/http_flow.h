// SPDX-License-Identifier: Apache-2.0
//
// HttpFlow: the requests of one connection, whichever front it came by. Each is judged by itself, gets its
// credentials, goes out to an address that was checked, and its answer comes back.
#pragma once

#include <optional>
#include <string>

#include "gateway/flow/bodies.h"
#include "gateway/flow/ingredients.h"
#include "gateway/flow/mount.h"
#include "gateway/flow/parts.h"
#include "gateway/flow/shown_token.h"
#include "gateway/upstream/answer_head.h"
#include "http/server.h"

namespace atl::gateway {

// What is known of a connection beside who opened it.
struct HttpOrigin {
  bool secure = false;             // goes on inside TLS: it came so, or its proxy was asked for that
  std::optional<std::string> sni;  // what the ClientHello named
  bool proxy = false;              // explicit: each request names its own target
  TokenNeed token = TokenNeed::kOptional;
  std::optional<HttpMount> mount;  // of the reverse front
};

// Lives as long as its connection's task.
class HttpFlow {
 public:
  HttpFlow(Parts& parts, Inbound in, HttpOrigin origin)
      : parts_(parts), in_(std::move(in)), origin_(std::move(origin)) {}

  // Answers one request, to its very end.
  async::Task<> handle(http::Exchange& exchange);

 private:
  struct Running;  // one request under way

  Result<Inbound> address(const http::RequestHead& request) const;
  async::Task<> serve(http::Exchange& exchange, Inbound in);
  void cut(Running& run);
  async::Task<Result<HeldBody>> hold(Running& run, std::size_t most);
  async::Task<Result<policy::RequestDecision>> judge(Running& run);
  Result<policy::RequestDecision> judge_now(Running& run);
  async::Task<bool> ask_person(Running& run, policy::RequestDecision& decision);
  async::Task<bool> wait_with(Running& run, Approvals::RowPtr row, policy::RequestDecision& decision);
  async::Task<std::optional<bool>> settle(Running& run, policy::RequestDecision& decision);
  async::Task<bool> hold_for_person(Running& run, const policy::RequestDecision& decision);
  async::Task<bool> use_grant(Running& run);
  policy::RequestFacts facts_of(const Running& run) const;
  bool still_let_through(const SandboxPtr& now, const Running& run) const;
  http::RequestHead named(const Running& run) const;
  static Result<void> check_length(Running& run, const policy::RequestDecision& decision);
  Result<void> check_fresh(const Running& run, const policy::RequestDecision& decision) const;
  async::Task<Result<void>> gather(Running& run, const policy::RequestDecision& decision);
  async::Task<Result<void>> prepare(Running& run, policy::RequestDecision decision);
  Result<std::string> finish_body(Running& run);
  Result<void> make_head(Running& run, policy::RequestDecision decision);
  bool still_carries(const Running& run) const;
  async::Task<> forward(Running& run);
  async::Task<> answer(Running& run);
  async::Task<> pass_body(Running& run, http::ResponseHead head, std::string coding, const AnswerRules& rules,
                          std::size_t& incidents);
  AnswerRules answer_rules(const Running& run) const;
  void reject_tokens(const Running& run);
  void tell_incidents(const Running& run, std::size_t count);
  async::Task<> switch_protocol(Running& run);
  async::Task<> refuse(Running& run, const Error& error);
  async::Task<> refuse(http::Exchange& exchange, int status, policy::Refusal refusal);
  async::Task<> refuse_asked(Running& run, const Approval& approval);

  Parts& parts_;
  const Inbound in_;
  const HttpOrigin origin_;
};

}  // namespace atl::gateway
