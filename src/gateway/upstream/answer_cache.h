// SPDX-License-Identifier: Apache-2.0
//
// AnswerCache: what the DNS said lately, bounded for all and for each who asks.
#pragma once

#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/names/ip_address.h"

namespace atl::gateway {

// Use from one thread.
class AnswerCache {
 public:
  using Answer = Result<std::vector<IpAddress>>;
  static constexpr std::size_t kMost = 4096;
  // Who asks for more loses his own, so that what others ask for stays.
  static constexpr std::size_t kMostPerAsker = 256;

  // The answer to a question that is still good at `now`; null when there is none. Valid until the next call.
  const Answer* find(const std::string& name, Steady::time_point now);
  // Keeps `answer` until `until`, in place of an older one, on the account of `asker`.
  void keep(const std::string& name, const std::string& asker, Answer answer, Steady::time_point until);
  std::size_t size() const { return known_.size(); }

 private:
  using Names = std::list<std::string>;  // the oldest first
  struct Known {
    Answer answer;
    Steady::time_point until;
    std::string asker;
    Names::iterator in_all;
    Names::iterator in_own;
  };
  using Table = std::unordered_map<std::string, Known>;
  void forget(Table::iterator at);

  Table known_;
  Names all_;
  std::unordered_map<std::string, Names> own_;  // of each asker; never empty
};

}  // namespace atl::gateway
