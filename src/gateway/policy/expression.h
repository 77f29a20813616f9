// SPDX-License-Identifier: Apache-2.0
//
// Conditions of rules: a small typed language over the facts of a request. No loops, no functions of the
// user's; what one can cost is known when it is compiled. docs/guides/policy.md describes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/policy/request_view.h"

namespace re2 {
class RE2;
}

namespace atl::gateway::policy {

inline constexpr std::size_t kMaxExpressionBytes = 4096;
inline constexpr int kMaxExpressionDepth = 32;
// In steps: a comparison is 1, a search in a text 5, a pointer into a body 10, a regular expression 25.
inline constexpr int kMaxExpressionCost = 500;

// What a condition says about a request. Unknown: something that it asks for is absent, or unclear, or of
// another type, and the answer depends on it.
enum class Truth : std::uint8_t { kFalse, kTrue, kUnknown };

// A compiled condition. Immutable; evaluation allocates nothing but what the view caches.
class Expression {
 public:
  // kInvalid, word "invalid_expression"; the message tells the position, counted in bytes from 1.
  static Result<std::shared_ptr<const Expression>> compile(std::string_view text);
  ~Expression();

  // `as_spelled`: `path` and `segments` are the bytes as received, and never unclear.
  Truth evaluate(RequestView& request, bool as_spelled = false) const;
  const std::string& text() const { return text_; }
  int cost() const { return cost_; }
  bool reads_path() const { return reads_path_; }
  bool reads_body() const { return reads_body_; }

 private:
  friend class ExpressionParser;
  struct Node;
  struct Run;
  Expression();

  std::string text_;
  std::vector<Node> nodes_;
  int root_ = 0;
  int cost_ = 0;
  bool reads_path_ = false;
  bool reads_body_ = false;
};

}  // namespace atl::gateway::policy
