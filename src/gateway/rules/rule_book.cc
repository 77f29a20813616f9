// SPDX-License-Identifier: Apache-2.0
#include "gateway/rules/rule_book.h"

#include <array>

namespace atl::gateway {
namespace {

using async::Task;
using policy::Source;
using store::Connection;
using store::Statement;

constexpr const char* kInitial = R"sql(
CREATE TABLE rules (
  author     INTEGER NOT NULL,
  name       TEXT NOT NULL,
  trial      INTEGER NOT NULL,
  text       TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (author, name, trial)
) STRICT;
)sql";

struct Row {
  RuleKey key;
  std::string text;
  WallTime updated_at;
};

Result<std::vector<Row>> load_rows(Connection& db) {
  std::vector<Row> out;
  TRY(Statement rows, db.prepare("SELECT author, name, trial, text, updated_at FROM rules"));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    if (rows.integer(0) < 0 || rows.integer(0) > static_cast<std::int64_t>(Source::kTemplate))
      return make_error(Code::kCorrupt, "rules of an unknown kind of author");
    RuleKey key{static_cast<Source>(rows.integer(0)), rows.text(1), rows.integer(2) != 0};
    out.push_back({std::move(key), rows.text(3), {rows.integer(4)}});
  }
}

Result<void> forget(Connection& db, const RuleKey& key) {
  TRY_VOID(db.run("DELETE FROM rules WHERE author = ? AND name = ? AND trial = ?",
                  static_cast<std::int64_t>(key.author), key.name, std::int64_t{key.trial}));
  return success();
}

// The operator has one set: the other one goes.
Result<void> save(Connection& db, const Row& row) {
  RuleKey other{row.key.author, row.key.name, !row.key.trial};
  if (row.key.author == Source::kOperator) TRY_VOID(forget(db, other));
  TRY_VOID(db.run("INSERT OR REPLACE INTO rules (author, name, trial, text, updated_at) VALUES (?,?,?,?,?)",
                  static_cast<std::int64_t>(row.key.author), row.key.name, std::int64_t{row.key.trial},
                  row.text, row.updated_at.ms));
  return success();
}

}  // namespace

Result<std::unique_ptr<RuleBook>> RuleBook::open(const std::string& path, const Clock& clock) {
  TRY(auto db, store::Database::open(path, {{"rules_0001_initial", kInitial}}));
  std::unique_ptr<RuleBook> out(new RuleBook(std::move(db), clock));
  TRY_VOID(out->load());
  return out;
}

Result<void> RuleBook::load() {
  TRY(std::vector<Row> rows, db_->run_blocking([](Connection& db) { return load_rows(db); }));
  for (Row& row : rows) {
    auto set = policy::parse_rule_set(row.text, row.key.author);
    if (!set.ok()) {
      return make_error(Code::kCorrupt, "the kept rules of {} {} cannot be read: {}",
                        source_name(row.key.author), row.key.name, set.error().message());
    }
    kept_[row.key] = {std::move(row.text), row.updated_at, *std::move(set)};
  }
  return success();
}

std::vector<policy::RuleSet> RuleBook::above(const std::string& tenant,
                                             const std::string& template_id) const {
  std::vector<policy::RuleSet> out;
  const std::array<std::pair<Source, std::string>, 3> authors{
      {{Source::kOperator, std::string()}, {Source::kTenant, tenant}, {Source::kTemplate, template_id}}};
  for (const auto& [author, name] : authors) {
    for (bool trial : {false, true}) {
      auto found = kept_.find({author, name, trial});
      if (found != kept_.end()) out.push_back(found->second.set);
    }
  }
  return out;
}

void RuleBook::take(const RuleKey& key, KeptRules rules) {
  if (key.author == Source::kOperator) kept_.erase({key.author, key.name, !key.trial});
  kept_[key] = std::move(rules);
  changed_(key.author, key.name);
}

Task<Result<void>> RuleBook::set(Source author, std::string name, std::string text) {
  CO_TRY(policy::RuleSet set, policy::parse_rule_set(text, author));
  RuleKey key{author, std::move(name), set.shadow};
  if (kept_.size() >= kMostSets && !kept_.contains(key))
    co_return make_error(Code::kExhausted, "there are {} sets of rules already", kept_.size());
  Row row{key, text, clock_.now()};
  auto job = [row](Connection& db) { return save(db, row); };
  CO_TRY_VOID(co_await db_->run(std::move(job)));
  take(key, {std::move(text), row.updated_at, std::move(set)});
  co_return success();
}

Task<Result<void>> RuleBook::remove(RuleKey key) {
  if (!kept_.contains(key)) {
    co_return make_error(Code::kNotFound, "there are no {}rules of {} {}", key.trial ? "trial " : "",
                         source_name(key.author), key.name);
  }
  auto job = [key](Connection& db) { return forget(db, key); };
  CO_TRY_VOID(co_await db_->run(std::move(job)));
  kept_.erase(key);
  changed_(key.author, key.name);
  co_return success();
}

Result<void> RuleBook::begin_operator(const std::string& text) {
  RuleKey key{Source::kOperator, std::string(), false};
  if (!text.empty()) {
    TRY(policy::RuleSet set, policy::parse_rule_set(text, key.author));
    key.trial = set.shadow;
    Row row{key, text, clock_.now()};
    TRY_VOID(db_->run_blocking([row](Connection& db) { return save(db, row); }));
    take(key, {text, row.updated_at, std::move(set)});
    return success();
  }
  for (bool trial : {false, true}) {
    key.trial = trial;
    TRY_VOID(db_->run_blocking([key](Connection& db) { return forget(db, key); }));
    kept_.erase(key);
  }
  return success();
}

}  // namespace atl::gateway
