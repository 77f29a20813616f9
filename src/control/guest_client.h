// SPDX-License-Identifier: Apache-2.0
//
// GuestClient: control's own calls to the guest daemon of one sandbox (proto/guest.md). Its answers are
// hostile bytes.
#pragma once

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
  WallTime now;
};

class GuestClient {
 public:
  GuestClient(http::Connector connector, const model::Key32& internal_token);
  // Waits until the daemon answers, and keeps the connection for init().
  Task<Result<void>> wait_until_up();
  // Hands over identity, environment, token, time and 32 fresh random bytes. kUnavailable with the word
  // agent_unreachable when the daemon does not take them in time.
  Task<Result<void>> init(GuestIdentity identity);
  // Tells it that a pause comes: it ends streams, and writes its data out; with `stop` it ends its processes
  // first.
  Task<Result<void>> freeze(bool stop);
  void close();

 private:
  Task<Result<http::Answer>> post(std::string path, std::string body);
  std::shared_ptr<http::Client> client_;
  std::string token_;  // hex
};

}  // namespace atl::control
