// SPDX-License-Identifier: Apache-2.0
//
// Typed requests of the process service, from the JSON of clients. Pure.
#pragma once

#include <optional>
#include <string>

#include "guest/json.h"
#include "guest/process.h"

namespace atl::guest {

// Start.
struct StartRequest {
  ProcessConfig config;
  std::optional<TerminalSize> terminal;
  bool stdin_open = true;
  bool offsets = false;  // our extension
};

// Which process is meant.
struct Selector {
  bool by_tag = false;
  pid_t pid = 0;
  std::string tag;
};

// Connect.
struct ConnectRequest {
  Selector selector;
  std::optional<std::uint64_t> from_offset;  // our extension
};

// Bytes for a process.
struct Input {
  bool to_terminal = false;
  std::string data;
  std::optional<std::uint64_t> offset;  // our extension: where the data stands in the input of the process
};

// SendInput, CloseStdin, SendSignal, Update: each uses its own part.
struct UnaryRequest {
  Selector selector;
  Input input;
  int signal = 0;
  std::optional<TerminalSize> terminal;
};

// One message of StreamInput; neither part for a keepalive.
struct InputMessage {
  std::optional<Selector> selector;
  std::optional<Input> input;
};

// Each gives kInvalid with the path of the field that is wrong.
Result<StartRequest> parse_start(const boost::json::object& message);
Result<ConnectRequest> parse_connect(const boost::json::object& message);
Result<UnaryRequest> parse_unary(const boost::json::object& message, std::string_view method);
Result<InputMessage> parse_input_message(const boost::json::object& message);

}  // namespace atl::guest
