// SPDX-License-Identifier: Apache-2.0
//
// The compiled form of a condition; for the parser and the evaluation only.
#pragma once

#include <re2/re2.h>

#include "gateway/policy/expression.h"

namespace atl::gateway::policy {

// Static types. kAny is a value of a body, whose type is known only then.
enum class Type : std::uint8_t { kBool, kInt, kText, kAny };

// What a node does.
enum class Op : std::uint8_t {
  kTruth,
  kNumber,
  kText,  // literals
  kMethod,
  kHost,
  kPort,
  kPath,
  kSegment,
  kQuery,
  kHeader,
  kJson,
  kSize,
  kSecure,  // facts
  kLabel,
  kSandbox,
  kTenant,
  kTemplate,
  kTime,
  kHas,
  kNot,
  kAnd,
  kOr,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kInList,
  kInSegments,
  kStartsWith,
  kEndsWith,
  kContains,
  kMatches,
};

// One node of the tree.
struct Expression::Node {
  Op op = Op::kTruth;
  Type type = Type::kBool;
  int left = -1, right = -1;  // operands, as indexes of nodes
  std::int64_t number = 0;    // of kTruth, kNumber and kSegment
  std::string text;           // of kText, kQuery, kHeader and kJson
  std::vector<Node> list;     // of kInList: literals
  std::shared_ptr<const re2::RE2> pattern;
};

}  // namespace atl::gateway::policy
