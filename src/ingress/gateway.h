// SPDX-License-Identifier: Apache-2.0
//
// Gateway: carries requests of clients into sandboxes and answers for sandboxes that cannot be reached.
// Everything that comes from a guest is hostile; it only ever reaches the client that asked.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <variant>

#include "control/directory.h"
#include "http/client.h"
#include "http/server.h"
#include "ingress/answers.h"
#include "ingress/dial.h"
#include "ingress/flow.h"
#include "ingress/target.h"

namespace atl::ingress {

struct Options {
  std::string domain;                                        // "atoll.localhost"; a port is cut off
  std::size_t requests_per_sandbox = 2000;                   // at the same time; beyond: 429
  std::size_t requests = 8192;                               // of all sandboxes together; beyond: 429
  Steady::duration refused_retry = std::chrono::seconds(1);  // how long a closed port is tried again
  Steady::duration agent_silence =
      std::chrono::seconds(10);  // calls that the guest daemon answers at once; then: 504
  Steady::duration wake_limit = std::chrono::seconds(30);  // how long a request waits for its sandbox to wake
  GuestDial dial = slot_dial();
};

// Lives on one loop; handlers must have ended before it is destroyed.
class Gateway {
 public:
  Gateway(control::Directory& directory, Options options);
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // True when the request is for a sandbox, or looks as if it was meant for one; false: the API's.
  bool wants(const http::RequestHead& request) const;
  // Answers one request, to its very end.
  Task<> handle(http::Exchange& exchange);

  std::size_t active() const { return active_; }  // requests under way

 private:
  // A request that may go on to its sandbox.
  struct Admission {
    control::RoutePtr route;
    std::uint16_t port = 0;
  };
  // A request that waits until its sandbox runs.
  struct Asleep {
    std::string sandbox;
  };
  using Verdict = std::variant<Refusal, Admission, Asleep>;

  Verdict admit(const http::RequestHead& request) const;
  Verdict admit_route(const http::RequestHead& request, const std::string& sandbox, control::RoutePtr route,
                      std::uint16_t port) const;
  Task<Verdict> wake_and_admit(const http::RequestHead& request, std::string sandbox);
  Task<Result<control::RoutePtr>> wake(std::string sandbox);
  bool full(const std::string& sandbox) const;
  std::shared_ptr<SandboxLinks> links_of(const control::Route& route);
  std::shared_ptr<http::Client> client_for(SandboxLinks& links, const Admission& admission,
                                           const http::RequestHead& request);
  std::shared_ptr<http::Client> kept_client(SandboxLinks& links, const Admission& admission);
  Task<> forward(Flow& flow, SandboxLinks& links, const Admission& admission);
  Task<Result<http::ResponseHead>> read_head(Flow& flow, const Admission& admission);
  Task<> answer(Flow& flow, const Admission& admission);
  Task<> answer_whole(Flow& flow, const Admission& admission, http::ResponseHead head);
  Task<> switch_protocol(Flow& flow, const Admission& admission);
  Refusal explain(const Flow& flow, const Admission& admission) const;
  void sandbox_gone(std::string_view sandbox, std::uint64_t generation);

  control::Directory& directory_;
  Options options_;
  std::unordered_map<std::string, std::shared_ptr<SandboxLinks>> links_;
  std::unordered_map<std::string, std::size_t> waking_;  // requests that wait until their sandbox runs
  std::size_t active_ = 0;
  std::shared_ptr<void> gone_subscription_;
};

}  // namespace atl::ingress
