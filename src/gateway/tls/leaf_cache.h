// SPDX-License-Identifier: Apache-2.0
//
// LeafCache: the certificates that one authority has signed lately, by host.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "net/tls/openssl.h"

namespace atl::gateway {

// Bounded; the host that was not asked for longest goes first. Use from one loop.
class LeafCache {
 public:
  // A sandbox that asks for ever new names can only push out its own.
  static constexpr std::size_t kMaxLeaves = 64;

  // Null when there is none, or when it ends before `needed_until`.
  std::shared_ptr<X509> find(const std::string& host, WallTime needed_until);
  void put(const std::string& host, std::shared_ptr<X509> certificate, WallTime ends);
  std::size_t size() const { return leaves_.size(); }

 private:
  struct Leaf {
    std::shared_ptr<X509> certificate;
    WallTime ends;
    std::list<std::string>::iterator order;
  };
  std::unordered_map<std::string, Leaf> leaves_;
  std::list<std::string> order_;  // most recently used first
};

}  // namespace atl::gateway
