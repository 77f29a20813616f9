// SPDX-License-Identifier: Apache-2.0
#include "guest/session.h"

#include <csignal>
#include <string>

#include "base/text.h"
#include "guest/paths.h"

namespace atl::guest {
namespace {

constexpr int kRounds = 4;
constexpr std::size_t kMaxProcEntries = 100'000;

// One pass over /proc; true when it found somebody to kill.
bool kill_members(pid_t session) {
  auto proc = open_at(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY);
  if (!proc.ok()) return false;
  auto names = read_names(proc->get(), kMaxProcEntries);
  if (!names.ok()) return false;
  bool any = false;
  for (const std::string& name : *names) {
    auto pid = parse_number<pid_t>(name);
    if (!pid || *pid == session) continue;
    auto file = open_at(proc->get(), name + "/stat", O_RDONLY);
    if (!file.ok()) continue;
    char text[512];
    auto size = read_full(file->get(), text);
    if (!size.ok() || parse_stat_session({text, *size}) != session) continue;
    any = ::kill(*pid, SIGKILL) == 0 || any;
  }
  return any;
}

}  // namespace

std::optional<pid_t> parse_stat_session(std::string_view stat) {
  std::size_t close = stat.rfind(')');
  if (close == std::string_view::npos || close + 2 > stat.size()) return std::nullopt;
  auto fields = split(stat.substr(close + 2), ' ');  // state ppid pgrp session ...
  if (fields.size() < 4) return std::nullopt;
  return parse_number<pid_t>(fields[3]);
}

void kill_session(pid_t leader) {
  ::kill(-leader, SIGKILL);
  for (int round = 0; round < kRounds && kill_members(leader); ++round) {}
  ::kill(leader, SIGKILL);
}

}  // namespace atl::guest
