// SPDX-License-Identifier: Apache-2.0
//
// RuleFile: the operator's rules, in a file that may change at any time. A file that is gone or cannot be
// read as rules leaves those in force that were, also over restarts, and that is said loudly.
#pragma once

#include <string>

#include "gateway/rules/rule_book.h"

namespace atl::gateway {

class RuleFile {
 public:
  // How often it is looked at. It is small, and reading it sees also what keeps its time and size.
  static constexpr auto kInterval = std::chrono::milliseconds(250);

  // `path` empty: there is none. `book` must outlive this.
  RuleFile(RuleBook& book, std::string path) : book_(book), path_(std::move(path)) {}

  // Before the loop runs: what is in the file is in force, or else what was before. Blocking. An error when
  // there is neither: then nothing may leave.
  Result<void> begin();
  // Looks at it once.
  async::Task<> look();
  // Looks at it until it is cancelled.
  async::Task<> watch();

  const std::string& path() const { return path_; }
  // Why what is in force is not what is in the file; empty when it is.
  const std::string& problem() const { return problem_; }

 private:
  void complain(const Error& error);

  RuleBook& book_;
  const std::string path_;
  std::string seen_;  // what it held when it was looked at last
  std::string problem_;
};

}  // namespace atl::gateway
