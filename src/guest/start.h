// SPDX-License-Identifier: Apache-2.0
//
// The start command of a template: a program that runs in every sandbox from its first moment on, before the
// sandbox is anybody's. The template's file /etc/atoll/start.json names it and the ports that it serves:
//
//   {"command":"/usr/lib/x/server","args":["--fast"],"user":"user","cwd":"/home/user","listen":[49999],
//    "ready":"/ready"}
//
// The daemon makes the listening sockets before it answers anybody, and hands them over as descriptors 3, 4,
// … (LISTEN_FDS as systemd has it). So no client ever finds a port closed: it waits until the program takes
// it.
//
// With "ready", a path on the first port, the sandbox counts as started when GET of it has been answered with
// 2xx: the program holds the answer back until it is warm, and nobody polls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "async/scope.h"
#include "guest/rpc.h"
#include "guest/state.h"

namespace atl::guest {

struct StartCommand {
  std::string command;
  std::vector<std::string> arguments;
  std::string user;       // empty: the default one
  std::string directory;  // empty: the user's home
  std::vector<std::uint16_t> ports;
  std::string ready;  // path; empty: it is ready when it runs
};
// The text of start.json. kInvalid names the field.
Result<StartCommand> parse_start_command(std::string_view text);

// Keeps the command running. Use from the daemon's loop only.
class Startup {
 public:
  Startup(Guest& guest, StartCommand command) : guest_(guest), command_(std::move(command)) {}

  // Makes the sockets. Blocks.
  Result<void> listen();
  // Starts the command, and again when it ends: at once the first time, then ever more slowly.
  Task<> run();
  // Asks it until it is ready, and then says so in Guest::started.
  Task<> wait_ready();

 private:
  Task<Result<ProcessPtr>> start();

  Guest& guest_;
  const StartCommand command_;
  std::vector<sys::Fd> sockets_;
};

// GET /started: 204 when the start command is ready, or there is none. Waits for it.
Task<> serve_started(Guest& guest, Exchange& exchange);

// The start command of the template that this sandbox was made from; nullopt when it has none, or one that
// cannot be read, which is logged. Blocks.
std::optional<StartCommand> read_start_command(const std::string& path = "/etc/atoll/start.json");

}  // namespace atl::guest
