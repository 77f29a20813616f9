// SPDX-License-Identifier: Apache-2.0
//
// Flow: one request on its way through ingress, with everything that must be broken off when the sandbox or
// the client goes away.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "control/directory.h"
#include "http/client.h"
#include "http/server.h"

namespace atl::ingress {

// Pinned resource on the loop's one thread, owned by the handler's frame.
struct Flow {
  explicit Flow(http::Exchange& e) : exchange(e) {}
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Ends every pending operation of this flow. The client never sees a clean end.
  void break_off();
  // Ends only the guest's side: there is nobody left to answer.
  void drop_guest();

  http::Exchange& exchange;
  std::unique_ptr<http::ClientExchange> upstream;  // once the guest has been reached
  net::Stream* raw_client = nullptr;               // set while both sides are raw streams
  net::Stream* raw_guest = nullptr;
  std::optional<http::ResponseHead> switching;  // the guest's 101
  bool answered = false;                        // the last byte of the answer is on its way
  bool sandbox_gone = false;
  bool client_gone = false;
  bool body_broken = false;  // the client's body is not well framed
};

// Everything that ingress holds for one sandbox of one generation.
struct SandboxLinks {
  std::uint64_t generation = 0;
  std::list<Flow*> flows;
  std::map<std::uint16_t, std::shared_ptr<http::Client>> clients;  // kept connections, by port
};

}  // namespace atl::ingress
