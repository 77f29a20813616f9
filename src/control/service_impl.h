// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files that implement SandboxService; not for others.
#pragma once

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "control/sandbox_service.h"

namespace atl::control {

// What one transition writes beside the row.
struct SandboxService::Step {
  std::optional<model::Operation> intent;  // nothing is under way any more when empty
  std::string event;                       // type for the journal, empty for none
  std::string message;
  std::string data = "{}";
  bool count_spawn = false;
};

// True when a request to the runner may or may not have been carried out, and may be repeated.
bool fate_unknown(const Error& error);
// Of these, and of what was refused only for the moment.
bool worth_repeating(const Error& error);
// What one that rests on its disk may take there.
std::uint64_t most_on_disk(const model::SandboxRow& row);
Error ended_meanwhile(const std::string& id);
Error not_running(const model::SandboxRow& row);

inline std::string event_data(std::initializer_list<std::pair<const char*, std::string_view>> fields) {
  std::string out;
  for (const auto& [key, value] : fields) {
    if (!out.empty()) out += ',';
    out += json_quote(key) + ":" + json_quote(value);
  }
  return "{" + out + "}";
}

}  // namespace atl::control
