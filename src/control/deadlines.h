// SPDX-License-Identifier: Apache-2.0
//
// Deadlines: what ends when, in order of time. Times are monotonic milliseconds of this boot, as stored in
// the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace atl::control {

// One deadline per id. Pure data; O(log n) each.
class Deadlines {
 public:
  void set(const std::string& id, std::int64_t at_ms) {
    erase(id);
    times_.emplace(id, at_ms);
    order_.emplace(at_ms, id);
  }
  void erase(const std::string& id) {
    auto found = times_.find(id);
    if (found == times_.end()) return;
    order_.erase({found->second, id});
    times_.erase(found);
  }
  std::optional<std::int64_t> next() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->first;
  }
  // Takes out those that are due, earliest first.
  std::vector<std::string> pop_due(std::int64_t now_ms) {
    std::vector<std::string> due;
    while (!order_.empty() && order_.begin()->first <= now_ms) {
      due.push_back(order_.begin()->second);
      times_.erase(due.back());
      order_.erase(order_.begin());
    }
    return due;
  }
  std::size_t size() const { return times_.size(); }

 private:
  std::set<std::pair<std::int64_t, std::string>> order_;
  std::unordered_map<std::string, std::int64_t> times_;
};

}  // namespace atl::control
