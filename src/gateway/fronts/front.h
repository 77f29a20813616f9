// SPDX-License-Identifier: Apache-2.0
//
// Front: takes the connections and questions that slots redirect to the gateway, finds out whose they are and
// whereto, and gives them to the front that serves them.
#pragma once

#include <memory>

#include "async/scope.h"
#include "gateway/flow/parts.h"
#include "net/datagram.h"
#include "net/tcp.h"

namespace atl::gateway {

class Front {
 public:
  Front(async::Executor executor, Parts& parts, std::unique_ptr<net::Listener> listener,
        std::unique_ptr<net::DatagramSocket> datagrams);

  void start();
  // Accepts no more and cuts what is left.
  async::Task<> stop();

 private:
  async::Task<> accept_loop();
  async::Task<> question_loop();
  async::Task<> serve(net::StreamPtr client);
  // Who speaks.
  struct Speaker {
    SandboxPtr sandbox;  // null: nobody that may
    std::string label;   // of the process; empty when it has none
  };
  // By the peer's address.
  Speaker speaker(const net::Endpoint& peer) const;
  async::Task<> answer(net::Datagram question);

  Parts& parts_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::DatagramSocket> datagrams_;
  async::Scope scope_;
};

}  // namespace atl::gateway
