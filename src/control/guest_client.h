// SPDX-License-Identifier: Apache-2.0
//
// GuestClient: control's own calls to the guest daemon of one sandbox (proto/guest.md). Its answers are
// hostile bytes.
#pragma once

#include <optional>

#include "control/egress_answer.h"
#include "http/client.h"
#include "model/record.h"

namespace atl::control {

using async::Task;

// How to reach the guest daemon of a sandbox; the real one goes through the slot's link.
using GuestNetwork = std::function<http::Connector(const model::SandboxRow&)>;
GuestNetwork slot_network();

// What a sandbox learns about itself when it starts to work for a tenant.
struct GuestIdentity {
  std::string sandbox;
  std::uint64_t generation = 1;
  std::string template_id;
  std::string team;
  bool keep_environment = false;  // the guest has it: instead of `envs`
  model::StringMap envs;
  Secret access_token;
  std::string user;
  std::string workdir;
  std::vector<std::string> labels;  // that its commands may have
  WallTime now;
  EgressAnswer gateway;  // what is empty in it stays as the guest has it
  // It goes on from another's memory: the token that its guest daemon knows, in place of which it gets its
  // own.
  std::optional<model::Key32> known_token;
};

// What is asked of a guest daemon before its sandbox stands still.
struct FreezeOrder {
  bool stop = false;     // ask all processes to end
  bool sync = true;      // write out what was written
  bool outside = false;  // count the connections that lead to the outside
};

// What a guest daemon says about work that only it knows of. Hostile: believed, since it only keeps its own
// sandbox awake or lets it sleep.
struct GuestActivity {
  std::uint32_t processes = 0;  // started through the API, services left out
  std::uint32_t pid = 0;        // of the eldest
  std::string command;          // its command, printable, at most 256 bytes
  Millis quiet{};               // since the last of them, and the last request, ended
};

class GuestClient {
 public:
  GuestClient(http::Connector connector, const model::Key32& internal_token);
  // Waits until the daemon answers, and keeps the connection for init().
  Task<Result<void>> wait_until_up();
  // Waits until the template's start command is ready for its first client (guest/start.h). kUnavailable with
  // the word not_ready when it is not in time.
  Task<Result<void>> wait_until_started();
  // Hands over identity, environment, token, time and 32 fresh random bytes. kUnavailable with the word
  // agent_unreachable when the daemon does not take them in time.
  Task<Result<void>> init(GuestIdentity identity);
  // Tells it that a pause comes: it ends streams, and does what is ordered. The answer: how many connections
  // lead out of the sandbox, 0 where that was not asked. Hostile: it only decides where the sandbox's own
  // memory rests.
  Task<Result<std::uint64_t>> freeze(FreezeOrder order);
  Task<Result<GuestActivity>> activity();
  void close();

 private:
  Task<Result<http::Answer>> call(const char* method, std::string path, std::string body, std::string token);
  Task<Result<http::Answer>> post(std::string path, std::string body) {
    return call("POST", std::move(path), std::move(body), token_);
  }
  std::shared_ptr<http::Client> client_;
  std::string token_;  // hex
};

}  // namespace atl::control
