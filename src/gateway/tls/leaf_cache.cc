// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/leaf_cache.h"

namespace atl::gateway {

std::shared_ptr<X509> LeafCache::find(const std::string& host, WallTime needed_until) {
  auto found = leaves_.find(host);
  if (found == leaves_.end() || found->second.ends < needed_until) return nullptr;
  order_.splice(order_.begin(), order_, found->second.order);
  return found->second.certificate;
}

void LeafCache::put(const std::string& host, std::shared_ptr<X509> certificate, WallTime ends) {
  auto found = leaves_.find(host);
  if (found != leaves_.end()) {
    order_.erase(found->second.order);
    leaves_.erase(found);
  }
  if (leaves_.size() == kMaxLeaves) {
    leaves_.erase(order_.back());
    order_.pop_back();
  }
  order_.push_front(host);
  leaves_.emplace(host, Leaf{std::move(certificate), ends, order_.begin()});
}

}  // namespace atl::gateway
