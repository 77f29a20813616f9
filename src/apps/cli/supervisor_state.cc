// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <boost/json.hpp>

#include "apps/cli/api_client.h"
#include "apps/cli/supervisor.h"
#include "base/units.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

json::object process_json(const ProcessId& id) { return {{"pid", id.pid}, {"start_ticks", id.start_ticks}}; }

ProcessId process_of(const json::value& value) {
  return {static_cast<pid_t>(number_at(value, "pid")),
          static_cast<std::uint64_t>(number_at(value, "start_ticks"))};
}

std::vector<std::string> words_at(const json::value& value, std::string_view key) {
  std::vector<std::string> words;
  const json::value* list = find_at(value, key);
  if (list == nullptr || !list->is_array()) return words;
  for (const json::value& word : list->as_array()) {
    if (word.is_string()) words.emplace_back(std::string_view(word.as_string()));
  }
  return words;
}

}  // namespace

std::string supervisor_state_path(const std::string& run_dir) { return run_dir + "/supervisor.json"; }

std::string state_json(const SupervisorState& state) {
  json::array daemons;
  for (const DaemonState& daemon : state.daemons) {
    json::object item = process_json(daemon.process);
    item["name"] = daemon.name;
    item["restarts"] = daemon.restarts;
    item["since"] = daemon.since.ms;
    daemons.push_back(std::move(item));
  }
  json::object root = process_json(state.process);
  root["slot_first"] = state.slot_first;
  root["slot_count"] = state.slot_count;
  root["listen"] = json::value_from(state.listen);
  root["flags"] = json::value_from(state.flags);
  root["daemons"] = std::move(daemons);
  return json::serialize(root) + "\n";
}

Result<SupervisorState> parse_state(std::string_view text) {
  boost::system::error_code failure;
  json::value root = json::parse(text, failure);
  const json::value* daemons = find_at(root, "daemons");
  if (failure || daemons == nullptr || !daemons->is_array()) {
    return make_error(Code::kCorrupt, "the supervisor's state file is damaged");
  }
  SupervisorState state;
  state.process = process_of(root);
  state.slot_first = static_cast<std::uint32_t>(number_at(root, "slot_first"));
  state.slot_count = static_cast<std::uint32_t>(number_at(root, "slot_count"));
  state.listen = words_at(root, "listen");
  state.flags = words_at(root, "flags");
  for (const json::value& item : daemons->as_array()) {
    DaemonState daemon;
    daemon.name = text_at(item, "name");
    daemon.process = process_of(item);
    daemon.restarts = static_cast<unsigned>(number_at(item, "restarts"));
    daemon.since = {number_at(item, "since")};
    state.daemons.push_back(std::move(daemon));
  }
  return state;
}

Result<SupervisorState> load_state(const std::string& run_dir) {
  std::string path = supervisor_state_path(run_dir);
  TRY(std::string text, sys::read_file(path, kMiB));
  auto state = parse_state(text);
  if (!state.ok()) return std::move(state).error().context(path);
  return state;
}

Millis restart_delay(unsigned deaths) {
  unsigned doublings = std::min(deaths == 0 ? 0U : deaths - 1, 7U);
  return std::min(Millis(100) * (1U << doublings), Millis(10'000));
}

}  // namespace atl::cli
