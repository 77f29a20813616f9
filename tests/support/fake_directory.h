// SPDX-License-Identifier: Apache-2.0
//
// A directory of one sandbox, whose state a test sets.
#pragma once

#include <map>
#include <string>

#include "control/directory.h"

namespace atl::ingress {

using async::Task;

inline constexpr char kId[] = "i0123456789abcdefghij";
inline constexpr char kInternalToken[] = "0011223344";

class FakeDirectory : public control::Directory {
 public:
  control::RoutePtr find(std::string_view sandbox) const override {
    auto found = routes.find(std::string(sandbox));
    return found == routes.end() ? nullptr : found->second;
  }
  control::RoutePtr find_by_signature(std::string_view path, std::string_view operation,
                                      std::string_view user, std::string_view expiration,
                                      std::string_view signature) const override {
    auto all = fmt::format("{}:{}:{}:{}", path, operation, user, expiration);
    return signature == "v1_good" && all == "a.txt:read:u:5" ? find(kId) : nullptr;
  }
  Task<Result<control::RoutePtr>> wake(std::string sandbox) override {
    ++wakes;
    while (slow) co_await async::yield();
    if (!wakeable) co_return make_error(Code::kUnavailable, "no room");
    auto route = std::make_shared<control::Route>(*routes.at(sandbox));
    route->state = model::State::kRunning;
    ++route->generation;
    routes[sandbox] = route;
    co_return route;
  }
  std::shared_ptr<void> on_gone(std::function<void(std::string_view, std::uint64_t)> call) override {
    gone = std::move(call);
    return std::shared_ptr<void>(this, [](void* self) { static_cast<FakeDirectory*>(self)->gone = nullptr; });
  }
  control::Route& add(std::uint64_t generation = 1) {
    auto route = std::make_shared<control::Route>();
    route->sandbox = kId;
    route->generation = generation;
    route->activity = std::make_shared<control::Activity>(system_clock());
    route->internal_token = Secret(kInternalToken);
    routes[kId] = route;
    return *route;
  }
  void kill() {
    auto generation = routes.at(kId)->generation;
    routes.erase(kId);
    gone(kId, generation);
  }

  std::map<std::string, control::RoutePtr> routes;
  bool wakeable = true;
  bool slow = false;  // wakes end only when this is false again
  int wakes = 0;
  std::function<void(std::string_view, std::uint64_t)> gone;
};

}  // namespace atl::ingress
