// SPDX-License-Identifier: Apache-2.0
//
// Directory: what ingress must know to route a request into a sandbox. Kept in memory, on the control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "base/secret.h"
#include "control/activity.h"
#include "model/sandbox.h"

namespace atl::control {

using async::Task;

// A snapshot of one sandbox's routing facts. Shared, immutable; replaced when something changes.
struct Route {
  std::string sandbox;
  std::uint64_t generation = 0;
  model::State state = model::State::kRunning;
  std::string interface;               // bind to it, then connect to model::kGuestAddress
  Secret access_token;                 // empty when the sandbox is not secured
  Secret traffic_token;                // empty when public traffic is allowed
  std::string mask_request_host;       // empty: pass the Host on; "${PORT}" is replaced
  Secret internal_token;               // hex, for internal calls to the guest daemon
  bool auto_resume = false;            // paused, and any request wakes it
  std::shared_ptr<Activity> activity;  // requests are counted there; nullptr: nobody counts
};
using RoutePtr = std::shared_ptr<const Route>;

class Directory {
 public:
  virtual ~Directory() = default;
  // nullptr when no such sandbox runs or is paused (unknown, killed, failed).
  virtual RoutePtr find(std::string_view sandbox) const = 0;
  // For signed URLs that name no sandbox: the live sandbox whose token makes `signature` (e2b-protocol 7.2).
  virtual RoutePtr find_by_signature(std::string_view path, std::string_view operation, std::string_view user,
                                     std::string_view expiration, std::string_view signature) const = 0;
  // Waits until the sandbox runs; wakes it when traffic may do that. However many ask, it is woken once.
  virtual Task<Result<RoutePtr>> wake(std::string sandbox) = 0;
  // Called with the sandbox id and generation when a sandbox stops being reachable: open connections into it
  // must be broken off, not ended cleanly. The returned handle unsubscribes when it is destroyed.
  virtual std::shared_ptr<void> on_gone(
      std::function<void(std::string_view sandbox, std::uint64_t generation)> call) = 0;
};

}  // namespace atl::control
