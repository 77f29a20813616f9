// SPDX-License-Identifier: Apache-2.0
//
// EgressLink: tells atoll-gateway which sandboxes there are, what they may reach and how they stand. One
// connection, in order; after each new connection everything is told anew. Without a connector there is no
// gateway and nothing is told.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/scope.h"
#include "control/egress_answer.h"
#include "http/client.h"
#include "model/record.h"

namespace atl::control {

using async::Task;

// What the gateway is told of one sandbox.
struct EgressFacts {
  std::string sandbox;
  std::string tenant;
  std::string template_id;
  std::uint64_t generation = 0;
  std::uint32_t slot = 0;
  model::State state = model::State::kRunning;
  model::NetworkRules network;
  std::vector<std::string> labels;
  bool hand_over = false;  // its guest daemon is about to be told who it is: the answer says all it needs
};

// As a row says it. What began as a copy of another sandbox is, for rules, of that one's template:
// `root_template`, when it is not empty.
EgressFacts egress_facts(const model::SandboxRow& row, const std::string& root_template);

// Use from one loop; stop() must have completed before it is destroyed.
class EgressLink {
 public:
  // `all` gives everything that holds a slot now.
  // `keep` stores what the gateway tells for the journal; what it could not store is told again.
  using Keep = std::function<Task<Result<void>>(std::vector<model::Event> events)>;
  // `told` is called each time a gateway has been told everything; may be null.
  EgressLink(async::Executor executor, http::Connector connect, std::function<std::vector<EgressFacts>()> all,
             Keep keep, std::function<void()> told = nullptr);

  void start();
  Task<> stop();
  bool connected() const { return connected_; }

  // Tells it on, without waiting.
  void changed(EgressFacts facts);
  void gone(std::string sandbox, std::uint64_t generation);
  // Returns when the gateway knows, with what it says; kInvalid when it refuses the rules. kUnavailable, word
  // gateway_unavailable, when it has not heard within two seconds: nothing of the sandbox gets out until it
  // has.
  Task<Result<EgressAnswer>> make_known(EgressFacts facts);
  // What the sandbox has under way out there: nothing without a gateway; kUnavailable as above.
  Task<Result<EgressWork>> work_of(std::string sandbox);

 private:
  // Somebody who waits for what the gateway says.
  struct Ask {
    std::optional<Result<EgressAnswer>> answer;
    bool over = false;  // nobody waits any more: what was to be said may be wrong by now
  };
  struct Message {
    std::string method, target, body;
    std::shared_ptr<Ask> ask;  // who waits for the answer; null: nobody
  };

  Task<> run();
  Task<Result<net::StreamPtr>> dial_once(std::shared_ptr<bool> dialled);
  Task<Result<void>> serve();
  Task<Result<void>> say_next();
  // The answer's body.
  Task<Result<std::string>> say(Message message);
  Task<Result<void>> ask_news();
  static Message put(const EgressFacts& facts, std::shared_ptr<Ask> ask);
  Task<Result<EgressAnswer>> hear(Message message, std::string sandbox);
  void enqueue(Message message);

  http::Connector connect_;
  std::function<std::vector<EgressFacts>()> all_;
  Keep keep_;
  std::function<void()> told_;
  std::shared_ptr<http::Client> client_;
  std::uint64_t have_ = 0;  // number of the last event of this gateway that was stored
  std::deque<Message> queue_;
  bool listening_ = false;  // what changes is queued
  bool connected_ = false;  // it has been told everything
  bool stopping_ = false;
  async::Event work_;      // something is in the queue
  async::Event progress_;  // something has been said
  async::Scope scope_;
};

}  // namespace atl::control
