// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/answer_cache.h"

namespace atl::gateway {

const AnswerCache::Answer* AnswerCache::find(const std::string& name, Steady::time_point now) {
  auto at = known_.find(name);
  if (at == known_.end()) return nullptr;
  if (now < at->second.until) return &at->second.answer;
  forget(at);
  return nullptr;
}

void AnswerCache::keep(const std::string& name, const std::string& asker, Answer answer,
                       Steady::time_point until) {
  if (auto old = known_.find(name); old != known_.end()) forget(old);
  auto own = own_.find(asker);
  if (own != own_.end() && own->second.size() >= kMostPerAsker) {
    forget(known_.find(own->second.front()));
  } else if (known_.size() >= kMost) {
    forget(known_.find(all_.front()));
  }
  Names& names = own_[asker];
  auto in_all = all_.insert(all_.end(), name);
  auto in_own = names.insert(names.end(), name);
  known_.emplace(name, Known{std::move(answer), until, asker, in_all, in_own});
}

void AnswerCache::forget(Table::iterator at) {
  all_.erase(at->second.in_all);
  auto own = own_.find(at->second.asker);
  own->second.erase(at->second.in_own);
  if (own->second.empty()) own_.erase(own);
  known_.erase(at);
}

}  // namespace atl::gateway
