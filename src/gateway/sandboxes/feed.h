// SPDX-License-Identifier: Apache-2.0
//
// Feed: what control tells the gateway, HTTP with JSON over a unix socket whose mode lets only control in.
//
//   POST   /v1/sync                      {"sandboxes": [...]}: these and no others
//   PUT    /v1/sandboxes/{id}            {"tenant", "template", "generation", "slot", "state", "network",
//   "labels"?}
//                                        200 {"authority": {"pem", "hash"}}, when it must trust one;
//                                        "underWay": requests that a pause should wait for, if any; with
//                                        "handOver": true also what it is to be given: {"token",
//                                        "environment": {...}}. A token of before is worth nothing then
//   GET    /v1/sandboxes/{id}/work       200 {"requests", "approvals", "quietMs"}: what is under way, and for
//   how
//                                        long nothing has been
//   DELETE /v1/sandboxes/{id}?generation=N
//   POST   /v1/alive?have=N              nothing has changed; 200 {"events": [...], "last", "lost"}: what
//                                        happened after event N, which is the last that control has kept
//
// A sandbox is known to the whole gateway when its request has been answered.
#pragma once

#include <functional>

#include <boost/json.hpp>

#include "gateway/sandboxes/registry.h"
#include "http/server.h"

namespace atl::gateway {

// What may leave a sandbox, and which way.
struct WayOut {
  std::shared_ptr<const policy::Policy> policy;
  std::shared_ptr<const EgressProxy> proxy;  // null: directly
};
// Makes it for a sandbox of which all else is known.
using CompileWayOut = std::function<Result<WayOut>(const Sandbox& sandbox)>;

// The server's side. Use from one loop.
class Feed {
 public:
  // `describe`: what control must know of a sandbox, the answer to its PUT.
  enum class HandOver : bool { kNo, kYes };
  using Describe = std::function<async::Task<boost::json::object>(SandboxPtr, HandOver)>;
  // `news`: what happened after an event, for the journal.
  using News = std::function<boost::json::object(std::uint64_t have)>;
  // `work`: what a sandbox has under way.
  using Work = std::function<boost::json::object(const std::string& sandbox)>;
  Feed(Registry& registry, CompileWayOut compile, Describe describe, News news, Work work)
      : registry_(registry),
        compile_(std::move(compile)),
        describe_(std::move(describe)),
        news_(std::move(news)),
        work_(std::move(work)) {}

  // Answers one request. What cannot be read changes nothing: 400 with the reason.
  async::Task<> handle(http::Exchange& exchange);

  // Rules have changed: those of these sandboxes are made anew, and what no longer complies is cut.
  void compile_anew(const std::function<bool(const Sandbox&)>& about);

 private:
  // The answer's body; empty where there is nothing to say.
  async::Task<Result<std::string>> take(http::Exchange& exchange);
  Result<void> sync(const boost::json::object& body);
  Result<Sandbox> read_sandbox(std::string id, const boost::json::object& body) const;

  Registry& registry_;
  CompileWayOut compile_;
  Describe describe_;
  News news_;
  Work work_;
};

}  // namespace atl::gateway
