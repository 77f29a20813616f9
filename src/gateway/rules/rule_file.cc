// SPDX-License-Identifier: Apache-2.0
#include "gateway/rules/rule_file.h"

#include "base/log.h"
#include "sys/files.h"

namespace atl::gateway {

using async::Task;

void RuleFile::complain(const Error& error) {
  if (problem_ == error.message()) return;
  problem_ = error.message();
  log::error("the operator's rules are not those of the file, but the last good ones",
             {{"file", path_}, {"why", problem_}});
}

Result<void> RuleFile::begin() {
  if (path_.empty()) return book_.begin_operator("");
  auto text = sys::read_file(path_, policy::kMaxRuleSetBytes + 1);
  // An empty file is not "no rules": somebody is about to write it.
  Result<void> taken = text.ok() ? text->empty() ? make_error(Code::kInvalid, "the file is empty")
                                                 : book_.begin_operator(*text)
                                 : Result<void>(text.error());
  if (text.ok()) seen_ = *text;
  if (taken.ok()) return success();
  bool kept = !book_.all().empty() && book_.all().begin()->first.author == policy::Source::kOperator;
  if (!kept) return std::move(taken).error().context(path_);
  complain(taken.error());
  return success();
}

Task<> RuleFile::look() {
  auto text = sys::read_file(path_, policy::kMaxRuleSetBytes + 1);
  if (!text.ok()) {
    seen_.clear();
    complain(text.error());
    co_return;
  }
  if (*text == seen_) co_return;
  seen_ = *text;
  auto taken = co_await book_.set(policy::Source::kOperator, "", *std::move(text));
  if (!taken.ok()) {
    // What is not the fault of the text is tried again.
    if (taken.error().code() != Code::kInvalid && taken.error().code() != Code::kTooLarge) seen_.clear();
    complain(taken.error());
    co_return;
  }
  problem_.clear();
  log::info("the operator's rules have changed", {{"file", path_}});
}

Task<> RuleFile::watch() {
  if (path_.empty()) co_return;
  while (true) {
    co_await async::sleep_for(kInterval);
    co_await look();
  }
}

}  // namespace atl::gateway
