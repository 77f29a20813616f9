// SPDX-License-Identifier: Apache-2.0
//
// JSON messages of the guest daemon's calls, and its records of batches: what is accepted is within its
// bounds.
#include <csignal>

#include "base/check.h"
#include "guest/batch_record.h"
#include "guest/init.h"
#include "guest/limits.h"
#include "guest/process_request.h"

namespace {

// No signal at all, or one of those that the page of the API names.
bool is_offered(int signal) {
  return signal == 0 || signal == SIGTERM || signal == SIGKILL || signal == SIGINT || signal == SIGHUP ||
         signal == SIGQUIT || signal == SIGUSR1 || signal == SIGUSR2;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace atl::guest;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto init = parse_init(text);
  CHECK(!init.ok() || init->settings.generation >= 0, "negative generation");
  auto record = parse_record(text, "k");
  CHECK(record.lines.size() + record.begun.size() <= size, "more lines than bytes");
  CHECK(parse_record(shortened_record(text), "k").lines.size() <= record.lines.size() + size,
        "more lines than bytes");
  auto message = parse_message(text);
  if (!message.ok()) return 0;
  auto start = parse_start(*message);
  if (start.ok()) {
    CHECK(!start->config.command.empty(), "empty command");
    CHECK(start->config.command.find('\0') == std::string::npos, "NUL in a command");
    CHECK(start->config.arguments.size() <= kMaxArguments, "too many arguments");
    for (const auto& [name, value] : start->config.environment)
      CHECK(!name.empty(), "empty name '{}'", value);
  }
  auto connect = parse_connect(*message);
  CHECK(!connect.ok() || connect->selector.by_tag || connect->selector.tag.empty(), "two selectors");
  for (const char* method : {"SendInput", "CloseStdin", "SendSignal", "Update"}) {
    auto request = parse_unary(*message, method);
    CHECK(!request.ok() || is_offered(request->signal), "signal {}", request->signal);
  }
  auto input = parse_input_message(*message);
  CHECK(!input.ok() || !input->input || input->input->data.size() <= size, "more bytes than sent");
  return 0;
}
