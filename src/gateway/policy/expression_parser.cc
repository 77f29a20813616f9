// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>

#include "base/text.h"
#include "gateway/policy/expression_node.h"
#include "http/syntax.h"

namespace atl::gateway::policy {
namespace {

constexpr std::size_t kMaxListItems = 64;
constexpr std::size_t kMaxPatternBytes = 512;
constexpr std::int64_t kPatternMemory = 256 * 1024;  // a regular expression's program and states
constexpr std::int64_t kMaxSegment = 63;

struct Fact {
  Op op;
  Type type;
};

const std::map<std::string_view, Fact>& plain_facts() {
  static const std::map<std::string_view, Fact> kFacts = {
      {"method", {Op::kMethod, Type::kText}}, {"host", {Op::kHost, Type::kText}},
      {"port", {Op::kPort, Type::kInt}},      {"path", {Op::kPath, Type::kText}},
      {"size", {Op::kSize, Type::kInt}},      {"secure", {Op::kSecure, Type::kBool}},
      {"label", {Op::kLabel, Type::kText}},   {"sandbox", {Op::kSandbox, Type::kText}},
      {"tenant", {Op::kTenant, Type::kText}}, {"template", {Op::kTemplate, Type::kText}},
      {"time", {Op::kTime, Type::kText}},
  };
  return kFacts;
}

const std::map<std::string_view, Op>& text_functions() {
  static const std::map<std::string_view, Op> kFunctions = {{"startsWith", Op::kStartsWith},
                                                            {"endsWith", Op::kEndsWith},
                                                            {"contains", Op::kContains},
                                                            {"matches", Op::kMatches}};
  return kFunctions;
}

int cost_of(Op op) {
  switch (op) {
    case Op::kTruth:
    case Op::kNumber:
    case Op::kText: return 0;
    case Op::kStartsWith:
    case Op::kEndsWith:
    case Op::kContains: return 5;
    case Op::kJson: return 10;
    case Op::kMatches: return 25;
    default: return 1;
  }
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

// A parser by descent: or, and, comparison, not, value. Every method returns the index of a node.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  Result<std::shared_ptr<const Expression>> run() {
    std::shared_ptr<Expression> out(new Expression());
    out_ = out.get();
    out->text_ = text_;
    if (text_.size() > kMaxExpressionBytes) return wrong("it is longer than 4096 bytes");
    TRY(out->root_, parse_or());
    skip_blanks();
    if (at_ < text_.size()) return wrong("an operator or the end is expected");
    if (out->nodes_[static_cast<std::size_t>(out->root_)].type != Type::kBool) {
      at_ = 0;
      return wrong("the whole must be true or false");
    }
    if (out->cost_ > kMaxExpressionCost)
      return wrong(fmt::format("it costs {} steps, more than {}", out->cost_, kMaxExpressionCost));
    return std::shared_ptr<const Expression>(std::move(out));
  }

 private:
  using Node = Expression::Node;

  Error wrong(std::string_view why) const { return wrong_at(at_, why); }
  static Error wrong_at(std::size_t at, std::string_view why) {
    return make_error(Code::kInvalid, "position {}: {}", at + 1, why).with_word("invalid_expression");
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view symbol) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  // A word, or nothing.
  std::string_view take_word() {
    skip_blanks();
    std::size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  bool take_keyword(std::string_view keyword) {
    std::size_t from = at_;
    if (take_word() == keyword) return true;
    at_ = from;
    return false;
  }
  Result<void> expect(std::string_view symbol) {
    if (take(symbol)) return {};
    skip_blanks();
    return wrong(fmt::format("{} is expected", symbol));
  }

  Node& node(int index) { return out_->nodes_[static_cast<std::size_t>(index)]; }
  int add(Node node) {
    out_->cost_ += cost_of(node.op) + static_cast<int>(node.list.size());
    out_->reads_path_ |= node.op == Op::kPath || node.op == Op::kSegment || node.op == Op::kInSegments;
    out_->reads_body_ |= node.op == Op::kJson;
    out_->nodes_.push_back(std::move(node));
    return static_cast<int>(out_->nodes_.size()) - 1;
  }

  Result<int> parse_or() {
    if (++depth_ > kMaxExpressionDepth) return wrong("it is nested too deeply");
    TRY(int left, parse_and());
    while (take("||")) {
      TRY(int right, parse_and());
      TRY(left, both(Op::kOr, left, right));
    }
    --depth_;
    return left;
  }

  Result<int> parse_and() {
    TRY(int left, parse_comparison());
    while (take("&&")) {
      TRY(int right, parse_comparison());
      TRY(left, both(Op::kAnd, left, right));
    }
    return left;
  }

  Result<int> both(Op op, int left, int right) {
    if (node(left).type != Type::kBool || node(right).type != Type::kBool)
      return wrong("both sides of && and || must be true or false");
    return add({.op = op, .left = left, .right = right});
  }

  Result<int> parse_comparison() {
    TRY(int left, parse_not());
    if (take_keyword("in")) return parse_in(left);
    static constexpr std::pair<std::string_view, Op> kOperators[] = {
        {"==", Op::kEqual},        {"!=", Op::kUnequal}, {"<=", Op::kLessEqual},
        {">=", Op::kGreaterEqual}, {"<", Op::kLess},     {">", Op::kGreater}};
    for (auto [symbol, op] : kOperators) {
      if (!take(symbol)) continue;
      std::size_t at = at_;
      TRY(int right, parse_not());
      if (!comparable(op, node(left).type, node(right).type))
        return wrong_at(at, "the two sides have different types");
      return add({.op = op, .left = left, .right = right});
    }
    return left;
  }

  static bool comparable(Op op, Type left, Type right) {
    bool ordered = op != Op::kEqual && op != Op::kUnequal;
    if (ordered && (left == Type::kBool || right == Type::kBool)) return false;
    return left == right || left == Type::kAny || right == Type::kAny;
  }

  Result<int> parse_in(int left) {
    std::size_t at = at_;
    if (take_keyword("segments")) {
      if (node(left).type != Type::kText && node(left).type != Type::kAny)
        return wrong_at(at, "segments are texts");
      return add({.op = Op::kInSegments, .left = left});
    }
    TRY_VOID(expect("["));
    Node out{.op = Op::kInList, .left = left};
    do {
      std::size_t item_at = at_;
      TRY(std::optional<Node> item, parse_literal());
      if (!item) return wrong("a literal is expected");
      if (node(left).type != Type::kAny && item->type != node(left).type)
        return wrong_at(item_at, "the list holds another type");
      if (out.list.size() == kMaxListItems) return wrong_at(item_at, "the list is longer than 64");
      out.list.push_back(*std::move(item));
    } while (take(","));
    TRY_VOID(expect("]"));
    return add(std::move(out));
  }

  Result<int> parse_not() {
    skip_blanks();
    if (!text_.substr(at_).starts_with("!=") && take("!")) {
      if (++depth_ > kMaxExpressionDepth) return wrong("it is nested too deeply");
      TRY(int operand, parse_not());
      --depth_;
      if (node(operand).type != Type::kBool) return wrong("! needs true or false");
      return add({.op = Op::kNot, .left = operand});
    }
    return parse_calls();
  }

  // A value and the functions of texts behind it.
  Result<int> parse_calls() {
    TRY(int value, parse_value());
    while (take(".")) {
      std::size_t at = at_;
      auto function = text_functions().find(take_word());
      if (function == text_functions().end()) return wrong_at(at, "this function is not known");
      if (node(value).type != Type::kText && node(value).type != Type::kAny)
        return wrong_at(at, "this function is one of texts");
      TRY_VOID(expect("("));
      TRY(std::string argument, expect_text());
      TRY_VOID(expect(")"));
      TRY(value, call(function->second, value, std::move(argument), at));
    }
    return value;
  }

  Result<int> call(Op op, int value, std::string argument, std::size_t at) {
    Node out{.op = op, .left = value, .text = std::move(argument)};
    if (op == Op::kMatches) {
      if (out.text.size() > kMaxPatternBytes)
        return wrong_at(at, "the regular expression is longer than 512 bytes");
      re2::RE2::Options options;
      options.set_log_errors(false);
      options.set_max_mem(kPatternMemory);
      out.pattern = std::make_shared<const re2::RE2>(out.text, options);
      if (!out.pattern->ok()) return wrong_at(at, "the regular expression is wrong: " + out.pattern->error());
    }
    return add(std::move(out));
  }

  Result<int> parse_value() {
    if (take("(")) {
      TRY(int inner, parse_or());
      TRY_VOID(expect(")"));
      return inner;
    }
    TRY(std::optional<Node> literal, parse_literal());
    if (literal) return add(*std::move(literal));
    std::size_t at = at_;
    auto word = take_word();
    if (word.empty())
      return wrong(at_ == text_.size() ? "a value is expected, and this is the end" : "a value is expected");
    if (word == "has") return parse_has();
    return parse_fact(word, at);
  }

  Result<int> parse_has() {
    TRY_VOID(expect("("));
    skip_blanks();
    std::size_t at = at_;
    TRY(int what, parse_fact(take_word(), at));
    Op op = node(what).op;
    if (op != Op::kQuery && op != Op::kHeader && op != Op::kJson && op != Op::kSegment && op != Op::kSize)
      return wrong_at(at, "has() is for query, header, json, segments[N] and size");
    TRY_VOID(expect(")"));
    return add({.op = Op::kHas, .left = what});
  }

  Result<int> parse_fact(std::string_view word, std::size_t at) {
    if (auto found = plain_facts().find(word); found != plain_facts().end())
      return add({.op = found->second.op, .type = found->second.type});
    if (word == "query" || word == "header") return parse_named(word == "query" ? Op::kQuery : Op::kHeader);
    if (word == "segments") return parse_segment();
    if (word == "json") return parse_json_pointer();
    return wrong_at(at, fmt::format("'{}' is not known", printable(word)));
  }

  Result<int> parse_named(Op op) {
    TRY_VOID(expect("["));
    std::size_t at = at_;
    TRY(std::string key, expect_text());
    TRY_VOID(expect("]"));
    if (op == Op::kHeader && !http::is_token(key)) return wrong_at(at, "this is not a header's name");
    if (op == Op::kHeader) key = to_lower(key);
    return add({.op = op, .type = Type::kText, .text = std::move(key)});
  }

  Result<int> parse_segment() {
    TRY_VOID(expect("["));
    skip_blanks();
    std::size_t at = at_;
    auto index = parse_number<std::int64_t>(take_word());
    if (!index || *index < 0 || *index > kMaxSegment)
      return wrong_at(at, "a number from 0 to 63 is expected");
    TRY_VOID(expect("]"));
    return add({.op = Op::kSegment, .type = Type::kText, .number = *index});
  }

  Result<int> parse_json_pointer() {
    TRY_VOID(expect("("));
    skip_blanks();
    std::size_t at = at_;
    TRY(std::string pointer, expect_text());
    TRY_VOID(expect(")"));
    boost::system::error_code error;
    (void)boost::json::value(nullptr).find_pointer(pointer, error);
    if (!pointer.empty() && !pointer.starts_with('/'))
      return wrong_at(at, "a pointer like \"/a/0/b\" is expected");
    return add({.op = Op::kJson, .type = Type::kAny, .text = std::move(pointer)});
  }

  Result<std::string> expect_text() {
    skip_blanks();
    std::size_t at = at_;
    TRY(std::optional<Node> literal, parse_literal());
    if (!literal || literal->op != Op::kText) return wrong_at(at, "a text in quotes is expected");
    return std::move(literal->text);
  }

  // A literal, or nothing when something else stands here.
  Result<std::optional<Node>> parse_literal() {
    skip_blanks();
    if (at_ == text_.size()) return std::optional<Node>();
    char c = text_[at_];
    if (c == '"' || c == '\'') return parse_text(c);
    if ((c >= '0' && c <= '9') || c == '-') return parse_integer();
    if (take_keyword("true")) return std::optional(Node{.op = Op::kTruth, .number = 1});
    if (take_keyword("false")) return std::optional(Node{.op = Op::kTruth, .number = 0});
    return std::optional<Node>();
  }

  Result<std::optional<Node>> parse_integer() {
    std::size_t from = at_;
    if (text_[at_] == '-') ++at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    auto number = parse_number<std::int64_t>(text_.substr(from, at_ - from));
    if (!number) return wrong_at(from, "this is not an integer of 64 bits");
    return std::optional(Node{.op = Op::kNumber, .type = Type::kInt, .number = *number});
  }

  Result<std::optional<Node>> parse_text(char quote) {
    std::size_t from = at_++;
    Node out{.op = Op::kText, .type = Type::kText};
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c != '\\') {
        out.text += c;
        continue;
      }
      static constexpr std::string_view kNames = "\\\"'nrt", kMeant = "\\\"'\n\r\t";
      auto known = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
      if (known == std::string_view::npos) return wrong(R"(only \\ \" \' \n \r \t are known)");
      out.text += kMeant[known];
      ++at_;
    }
    if (at_ == text_.size()) return wrong_at(from, "the text is not closed");
    ++at_;
    return std::optional(std::move(out));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Expression* out_ = nullptr;
};

Result<std::shared_ptr<const Expression>> Expression::compile(std::string_view text) {
  return ExpressionParser(text).run();
}

Expression::Expression() = default;
Expression::~Expression() = default;

}  // namespace atl::gateway::policy
