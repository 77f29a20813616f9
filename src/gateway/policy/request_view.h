// SPDX-License-Identifier: Apache-2.0
//
// One request while rules look at it: what has to be parsed is parsed once, when the first rule wants it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include "gateway/policy/facts.h"
#include "gateway/policy/path.h"

namespace atl::gateway::policy {

// A value of an expression. Texts point into the request, the view or the expression.
using Value = std::variant<bool, std::int64_t, std::string_view>;

// Why there is no value. An absent one is fine to ask for with has(); an unclear one is never fine.
enum class Lack : std::uint8_t { kAbsent, kUnclear };
using Lookup = std::variant<Value, Lack>;

// Reads facts lazily. The facts outlive it.
class RequestView {
 public:
  explicit RequestView(const RequestFacts& facts) : facts_(facts) {}
  RequestView(const RequestView&) = delete;

  const RequestFacts& facts() const { return facts_; }
  const RequestPath& path();
  const std::string& host();  // as text, IPv6 in brackets
  const std::string& time();  // "HH:MM", UTC
  // Sent twice, or not readable: unclear.
  Lookup query(const std::string& key);
  Lookup header(const std::string& name);  // lower case
  // A text, an integer or a truth value in a JSON body; all else is unclear, also when there is no body to
  // read.
  Lookup json(const std::string& pointer);

 private:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  const RequestFacts& facts_;
  std::optional<RequestPath> path_;
  std::optional<std::string> host_, time_;
  std::optional<Result<Pairs>> query_;
  std::optional<Result<boost::json::value>> body_;
};

}  // namespace atl::gateway::policy
