// SPDX-License-Identifier: Apache-2.0
#include "guest/activity.h"

#include <algorithm>

#include "base/text.h"
#include "guest/json.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxCommand = 200;  // bytes of the command that are told

// As a person would write it, cut off where that is long. A cut inside of a character is taken back.
std::string command_line(const ProcessConfig& config) {
  std::string out = config.command;
  for (const std::string& argument : config.arguments) {
    if (out.size() > kMaxCommand) break;
    out += ' ' + argument;
  }
  if (out.size() <= kMaxCommand) return out;
  out.resize(kMaxCommand);
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
  if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
  return out + "...";
}

std::int64_t whole_ms(Steady::duration time) {
  return std::max<std::int64_t>(0, std::chrono::duration_cast<Millis>(time).count());
}

}  // namespace

std::string activity_json(const Guest& guest) {
  std::int64_t working = 0, services = 0;
  ProcessPtr eldest;
  for (const ProcessPtr& process : guest.processes.alive()) {
    ++(process->config().service ? services : working);
    if (!process->config().service && !eldest) eldest = process;
  }
  auto now = Steady::now();
  ObjectWriter out;
  out.number("processes", working + static_cast<std::int64_t>(guest.processes.starting()));
  out.number("services", services);
  if (eldest) {
    out.number("pid", eldest->pid());
    out.text("command", printable(command_line(eldest->config())));
  }
  out.number("requests", static_cast<std::int64_t>(guest.requests));
  out.number("quietMs", whole_ms(now - std::max(guest.processes.last_change(), guest.last_request)));
  return std::move(out).finish();
}

}  // namespace atl::guest
