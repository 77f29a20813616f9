// SPDX-License-Identifier: Apache-2.0
//
// RulesApi: how control reaches the rules, over the gateway's own unix socket.
//
//   GET    /v1/rules                           {"policies": [{"author", "name", "trial", "rules", "default"?,
//   "updatedAt",
//                                              "file"?, "problem"?}]}
//   GET    /v1/rules/{author}/{name}[?trial=true]   the set, as it was given
//   PUT    /v1/rules/{author}/{name}           a set (policy/rule.h): in force when it is answered 200
//   {"notes": [...]} DELETE /v1/rules/{author}/{name}[?trial=true]   204 GET    /v1/rules/sandbox/{id} what
//   is in force for it POST   /v1/rules/sandbox/{id}              {"method", "url", "label"?, "address"?}:
//   what would happen, and why
//
// author: "tenant" or "template"; the operator's come from a file. Errors are {"code", "message",
// "error_code", "hint"?} with the status that belongs to them.
#pragma once

#include <boost/json.hpp>

#include "gateway/rules/rule_file.h"
#include "gateway/sandboxes/registry.h"
#include "http/server.h"

namespace atl::gateway {

class RulesApi {
 public:
  // All must outlive this.
  RulesApi(RuleBook& book, const RuleFile& file, const Registry& registry, const Clock& clock)
      : book_(book), file_(file), registry_(registry), clock_(clock) {}
  // True for the requests that are for this.
  static bool takes(const http::RequestHead& request);
  async::Task<> handle(http::Exchange& exchange);

 private:
  struct Call;
  async::Task<Result<std::string>> answer(http::Exchange& exchange);
  async::Task<Result<std::string>> one(Call call);
  async::Task<Result<std::string>> put(RuleKey key, std::string text);
  std::string list() const;
  Result<std::string> in_force(const std::string& sandbox) const;
  Result<std::string> try_out(const std::string& sandbox, const std::string& body) const;
  Result<SandboxPtr> find(const std::string& sandbox) const;

  RuleBook& book_;
  const RuleFile& file_;
  const Registry& registry_;
  const Clock& clock_;
};

}  // namespace atl::gateway
