// SPDX-License-Identifier: Apache-2.0
#include "guest/process_request.h"

#include <csignal>
#include <limits>

namespace atl::guest {
namespace {

using boost::json::object;

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

void read_size(Fields& parent, TerminalSize& size) {
  auto fields = parent.object("size");
  if (!fields) return;
  constexpr std::int64_t kMax = std::numeric_limits<std::uint16_t>::max();  // of the kernel's struct winsize
  if (auto columns = fields->integer("cols", 0, kMax)) size.columns = static_cast<std::uint16_t>(*columns);
  if (auto rows = fields->integer("rows", 0, kMax)) size.rows = static_cast<std::uint16_t>(*rows);
}

std::optional<TerminalSize> read_terminal(Fields& fields) {
  auto pty = fields.object("pty");
  if (!pty) return std::nullopt;
  TerminalSize size;
  read_size(*pty, size);
  return size;
}

Selector read_selector(Fields& fields) {
  Selector out;
  auto process = fields.object("process");
  if (!process || process->has("pid") == process->has("tag")) {
    fields.fail("process", "must name one process by 'pid' or 'tag'");
    return out;
  }
  out.by_tag = process->has("tag");
  out.tag = process->text("tag");
  out.pid =
      static_cast<pid_t>(process->integer("pid", 0, std::numeric_limits<std::uint32_t>::max()).value_or(0));
  return out;
}

Input read_input(Fields& fields) {
  Input out;
  auto offset = fields.integer("inputOffset", 0, std::numeric_limits<std::int64_t>::max());
  if (offset) out.offset = static_cast<std::uint64_t>(*offset);
  auto input = fields.object("input");
  // An empty message is legal: it may even leave out the member that says where it goes.
  if (!input) return out;
  out.to_terminal = input->has("pty");
  out.data = input->bytes(out.to_terminal ? "pty" : "stdin");
  return out;
}

int read_signal(Fields& fields) {
  // The last five are our extension, so that a terminal's and a supervisor's signals can be passed on.
  constexpr Fields::Choice kSignals[] = {{"SIGNAL_SIGTERM", SIGTERM}, {"SIGNAL_SIGKILL", SIGKILL},
                                         {"SIGNAL_SIGINT", SIGINT},   {"SIGNAL_SIGHUP", SIGHUP},
                                         {"SIGNAL_SIGQUIT", SIGQUIT}, {"SIGNAL_SIGUSR1", SIGUSR1},
                                         {"SIGNAL_SIGUSR2", SIGUSR2}};
  return fields.choice("signal", kSignals).value_or(0);
}

Result<void> check_exec(const ProcessConfig& config) {
  if (config.command.empty()) return Error(Code::kInvalid, "process.cmd: must not be empty");
  if (has_nul(config.command)) return Error(Code::kInvalid, "process.cmd: contains a NUL byte");
  std::size_t total = config.command.size();
  for (const std::string& argument : config.arguments) {
    if (has_nul(argument)) return Error(Code::kInvalid, "process.args: an argument contains a NUL byte");
    total += argument.size() + sizeof(char*) + 1;
  }
  for (const auto& [name, value] : config.environment) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value))
      return Error(Code::kInvalid,
                   "process.envs: a name is empty or contains '=', or an entry contains a NUL byte");
    total += name.size() + value.size() + sizeof(char*) + 2;
  }
  if (total > kMaxExecBytes)
    return make_error(Code::kInvalid, "process: arguments and environment are larger than {} bytes",
                      kMaxExecBytes);
  return success();
}

}  // namespace

Result<StartRequest> parse_start(const object& message) {
  Fields fields(message);
  StartRequest out;
  auto process = fields.object("process");
  if (!process) {
    fields.fail("process", "is required");
  } else {
    out.config.command = process->text("cmd");
    out.config.arguments = process->texts("args", kMaxArguments);
    out.config.environment = process->text_map("envs", kMaxVariables);
    out.config.directory = process->text("cwd");
  }
  out.config.tag = fields.text("tag");
  out.config.label = fields.text("label");
  // Clients that know no fields of ours say it with a variable.
  auto variable = out.config.environment.find("ATOLL_SERVICE");
  bool said = variable != out.config.environment.end() && variable->second == "1";
  out.config.service = fields.boolean("service") || said;
  out.terminal = read_terminal(fields);
  out.stdin_open = fields.boolean("stdin", true);
  out.offsets = fields.boolean("offsets");
  if (fields.failure()) return *fields.failure();
  if (out.config.tag.size() > kMaxTag)
    return make_error(Code::kInvalid, "tag: is longer than {} bytes", kMaxTag);
  TRY_VOID(check_exec(out.config));
  return out;
}

Result<ConnectRequest> parse_connect(const object& message) {
  Fields fields(message);
  ConnectRequest out;
  out.selector = read_selector(fields);
  auto offset = fields.integer("fromOffset", 0, std::numeric_limits<std::int64_t>::max());
  if (offset) out.from_offset = static_cast<std::uint64_t>(*offset);
  if (fields.failure()) return *fields.failure();
  return out;
}

Result<UnaryRequest> parse_unary(const object& message, std::string_view method) {
  Fields fields(message);
  UnaryRequest out;
  out.selector = read_selector(fields);
  if (method == "SendInput") out.input = read_input(fields);
  if (method == "Update") out.terminal = read_terminal(fields);
  if (method == "SendSignal") {
    out.signal = read_signal(fields);
    if (out.signal == 0)
      fields.fail("signal", "must be SIGNAL_SIGTERM, SIGKILL, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 or SIGUSR2");
  }
  if (fields.failure()) return *fields.failure();
  return out;
}

Result<InputMessage> parse_input_message(const object& message) {
  Fields fields(message);
  InputMessage out;
  if (auto start = fields.object("start")) out.selector = read_selector(*start);
  if (auto data = fields.object("data")) out.input = read_input(*data);
  if (fields.failure()) return *fields.failure();
  return out;
}

}  // namespace atl::guest
