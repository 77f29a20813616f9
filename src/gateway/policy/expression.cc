// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/expression.h"

#include <algorithm>

#include "base/text.h"
#include "gateway/policy/expression_node.h"

namespace atl::gateway::policy {
namespace {

Truth truth(bool value) { return value ? Truth::kTrue : Truth::kFalse; }

template <class T>
bool holds(Op op, const T& left, const T& right) {
  switch (op) {
    case Op::kEqual: return left == right;
    case Op::kUnequal: return left != right;
    case Op::kLess: return left < right;
    case Op::kLessEqual: return left <= right;
    case Op::kGreater: return left > right;
    default: return left >= right;
  }
}

// Values of different types, and the order of truth values, are unknown: "1" is not 1, and not not 1 either.
Truth compare(Op op, const Value& left, const Value& right) {
  if (left.index() != right.index()) return Truth::kUnknown;
  bool ordered = op != Op::kEqual && op != Op::kUnequal;
  if (std::holds_alternative<bool>(left) && ordered) return Truth::kUnknown;
  return truth(std::visit(
      [&](const auto& value) { return holds(op, value, std::get<std::decay_t<decltype(value)>>(right)); },
      left));
}

}  // namespace

// One evaluation.
struct Expression::Run {
  const std::vector<Node>& nodes;
  RequestView& request;
  bool as_spelled;

  const Node& at(int index) const { return nodes[static_cast<std::size_t>(index)]; }

  Truth decide(const Node& node) const {
    switch (node.op) {
      case Op::kNot: return negate(decide(at(node.left)));
      case Op::kAnd: return join(node, Truth::kFalse, Truth::kTrue);
      case Op::kOr: return join(node, Truth::kTrue, Truth::kFalse);
      case Op::kHas: return has(at(node.left));
      case Op::kInList: return in_list(node);
      case Op::kInSegments: return in_segments(node);
      case Op::kStartsWith:
      case Op::kEndsWith:
      case Op::kContains:
      case Op::kMatches: return about_text(node);
      case Op::kEqual:
      case Op::kUnequal:
      case Op::kLess:
      case Op::kLessEqual:
      case Op::kGreater:
      case Op::kGreaterEqual: return compared(node);
      default: return plain(node);
    }
  }

  static Truth negate(Truth value) {
    if (value == Truth::kUnknown) return value;
    return truth(value == Truth::kFalse);
  }

  // `strong` on one side decides, whatever the other is.
  Truth join(const Node& node, Truth strong, Truth weak) const {
    Truth left = decide(at(node.left));
    if (left == strong) return strong;
    Truth right = decide(at(node.right));
    if (right == strong) return strong;
    return left == weak && right == weak ? weak : Truth::kUnknown;
  }

  Truth plain(const Node& node) const {
    auto found = value(node);
    const auto* there = std::get_if<Value>(&found);
    const bool* decided = there ? std::get_if<bool>(there) : nullptr;
    return decided ? truth(*decided) : Truth::kUnknown;
  }

  Truth has(const Node& node) const {
    auto found = value(node);
    if (std::holds_alternative<Value>(found)) return Truth::kTrue;
    return std::get<Lack>(found) == Lack::kAbsent ? Truth::kFalse : Truth::kUnknown;
  }

  Truth compared(const Node& node) const {
    auto left = operand(at(node.left)), right = operand(at(node.right));
    if (!left || !right) return Truth::kUnknown;
    return compare(node.op, *left, *right);
  }

  // A side of a comparison may be a condition itself: (a == b) == true.
  std::optional<Value> operand(const Node& node) const {
    if (node.op >= Op::kHas) {
      Truth decided = decide(node);
      if (decided == Truth::kUnknown) return std::nullopt;
      return Value(decided == Truth::kTrue);
    }
    auto found = value(node);
    const auto* there = std::get_if<Value>(&found);
    return there ? std::optional(*there) : std::nullopt;
  }

  Truth in_list(const Node& node) const {
    auto left = operand(at(node.left));
    if (!left) return Truth::kUnknown;
    bool unknown = false;
    for (const Node& item : node.list) {
      Truth same = compare(Op::kEqual, *left, std::get<Value>(value(item)));
      if (same == Truth::kTrue) return same;
      unknown |= same == Truth::kUnknown;
    }
    return unknown ? Truth::kUnknown : Truth::kFalse;
  }

  Truth in_segments(const Node& node) const {
    auto left = operand(at(node.left));
    const auto* text = left ? std::get_if<std::string_view>(&*left) : nullptr;
    if (!text) return Truth::kUnknown;
    if (as_spelled) {
      auto parts = split(request.facts().path, '/');
      return truth(std::find(parts.begin() + 1, parts.end(), *text) != parts.end());
    }
    const auto& path = request.path();
    if (!path.clear()) return Truth::kUnknown;
    return truth(std::find(path.segments.begin(), path.segments.end(), *text) != path.segments.end());
  }

  Truth about_text(const Node& node) const {
    auto left = operand(at(node.left));
    const auto* text = left ? std::get_if<std::string_view>(&*left) : nullptr;
    if (!text) return Truth::kUnknown;
    switch (node.op) {
      case Op::kStartsWith: return truth(text->starts_with(node.text));
      case Op::kEndsWith: return truth(text->ends_with(node.text));
      case Op::kContains: return truth(text->find(node.text) != std::string_view::npos);
      // In braces: RE2's own string type, which is not the standard one, has another name in each release.
      default: return truth(re2::RE2::PartialMatch({text->data(), text->size()}, *node.pattern));
    }
  }

  // Of literals and facts.
  Lookup value(const Node& node) const {
    const RequestFacts& facts = request.facts();
    switch (node.op) {
      case Op::kTruth: return Value(node.number != 0);
      case Op::kNumber: return Value(node.number);
      case Op::kText: return Value(std::string_view(node.text));
      case Op::kMethod: return Value(facts.method);
      case Op::kHost: return Value(std::string_view(request.host()));
      case Op::kPort: return Value(std::int64_t{facts.at.authority.port});
      case Op::kPath: return path();
      case Op::kSegment: return segment(static_cast<std::size_t>(node.number));
      case Op::kQuery: return request.query(node.text);
      case Op::kHeader: return request.header(node.text);
      case Op::kJson: return request.json(node.text);
      case Op::kSize: return size();
      case Op::kSecure: return Value(facts.at.stream == Stream::kTls);
      case Op::kLabel: return Value(facts.at.who.label);
      case Op::kSandbox: return Value(facts.at.who.sandbox);
      case Op::kTenant: return Value(facts.at.who.tenant);
      case Op::kTemplate: return Value(facts.at.who.template_id);
      case Op::kTime: return Value(std::string_view(request.time()));
      default: return Lack::kUnclear;  // a condition; operand() and decide() take those
    }
  }

  Lookup size() const {
    auto bytes = request.facts().body_bytes;
    if (!bytes) return Lack::kAbsent;
    return Value(static_cast<std::int64_t>(std::min<std::uint64_t>(*bytes, INT64_MAX)));
  }

  Lookup path() const {
    if (as_spelled) return Value(request.facts().path);
    const auto& path = request.path();
    if (!path.clear()) return Lack::kUnclear;
    return Value(std::string_view(path.text));
  }

  Lookup segment(std::size_t index) const {
    if (as_spelled) {
      auto parts = split(request.facts().path, '/');
      if (index + 1 >= parts.size()) return Lack::kAbsent;
      return Value(parts[index + 1]);
    }
    const auto& path = request.path();
    if (!path.clear()) return Lack::kUnclear;
    if (index >= path.segments.size()) return Lack::kAbsent;
    return Value(std::string_view(path.segments[index]));
  }
};

Truth Expression::evaluate(RequestView& request, bool as_spelled) const {
  Run run{nodes_, request, as_spelled};
  return run.decide(run.at(root_));
}

}  // namespace atl::gateway::policy
