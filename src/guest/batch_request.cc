// SPDX-License-Identifier: Apache-2.0
#include "guest/batch_request.h"

#include <algorithm>
#include <array>

#include <boost/json/array.hpp>

#include "guest/json.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

struct Member {
  std::string_view name;
  StepKind kind;
};
// The member of a step that says what it does.
constexpr std::array<Member, 8> kMembers = {{{"code", StepKind::kCode},
                                             {"command", StepKind::kCommand},
                                             {"write", StepKind::kWrite},
                                             {"read", StepKind::kRead},
                                             {"list", StepKind::kList},
                                             {"makeDir", StepKind::kMakeDirectory},
                                             {"remove", StepKind::kRemove},
                                             {"move", StepKind::kMove}}};

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

void read_action(Fields& fields, BatchStep& step) {
  std::size_t found = 0;
  for (const Member& member : kMembers) {
    if (!fields.has(member.name)) continue;
    ++found;
    step.kind = member.kind;
    step.text = fields.text(member.name);
  }
  if (found != 1)
    fields.fail("command", "a step has one of code, command, write, read, list, makeDir, remove, move");
  if (step.kind != StepKind::kCode && has_nul(step.text)) fields.fail("command", "contains a NUL byte");
  if (step.text.empty() && step.kind != StepKind::kCode) fields.fail("command", "must not be empty");
}

void read_environment(Fields& fields, BatchStep& step) {
  step.environment = fields.text_map("envs", kMaxVariables);
  for (const auto& [name, value] : step.environment) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value))
      fields.fail("envs", "a name is empty or contains '=', or an entry contains a NUL byte");
  }
}

// Steps run one after the other unless they say after which others.
void read_order(Fields& fields, BatchStep& step, const std::vector<BatchStep>& earlier) {
  if (!fields.has("after")) {
    if (!earlier.empty()) step.after.push_back(earlier.size() - 1);
    return;
  }
  for (const std::string& name : fields.texts("after", kMaxBatchSteps)) {
    auto found =
        std::find_if(earlier.begin(), earlier.end(), [&](const BatchStep& each) { return each.id == name; });
    if (found == earlier.end())
      return fields.fail("after", fmt::format("no earlier step has the id '{}'", name));
    step.after.push_back(static_cast<std::size_t>(found - earlier.begin()));
  }
}

Result<BatchStep> parse_step(const boost::json::object& object, const std::vector<BatchStep>& earlier) {
  Fields fields(object);
  BatchStep step;
  step.id = fields.text("id");
  if (step.id.empty()) step.id = std::to_string(earlier.size() + 1);
  if (step.id.size() > kMaxBatchName)
    fields.fail("id", fmt::format("is longer than {} bytes", kMaxBatchName));
  read_action(fields, step);
  read_environment(fields, step);
  read_order(fields, step, earlier);
  step.ignore_error = fields.boolean("ignoreError");
  step.language = fields.text("language");
  step.context = fields.text("contextId");
  step.directory = fields.text("cwd");
  step.destination = fields.text("destination");
  step.label = fields.text("label");
  if (!step.label.empty() && step.kind != StepKind::kCommand) fields.fail("label", "is for commands");
  if (fields.has("content") && fields.has("base64"))
    fields.fail("content", "and base64 cannot both be given");
  step.content = fields.has("base64") ? fields.bytes("base64") : fields.text("content");
  if (step.kind == StepKind::kMove && step.destination.empty())
    fields.fail("destination", "must not be empty");
  bool known =
      std::any_of(earlier.begin(), earlier.end(), [&](const BatchStep& each) { return each.id == step.id; });
  if (known) fields.fail("id", "is another step's already");
  if (fields.failure()) return *fields.failure();
  return step;
}

}  // namespace

Result<BatchRequest> parse_batch(std::string_view text) {
  TRY(auto message, parse_message(text));
  Fields fields(message);
  BatchRequest out;
  out.key = fields.text("key");
  out.stop_on_error = fields.boolean("stopOnError", true);
  out.user = fields.text("user");
  if (out.key.size() > kMaxBatchName)
    fields.fail("key", fmt::format("is longer than {} bytes", kMaxBatchName));
  const boost::json::value* steps = message.if_contains("steps");
  if (steps == nullptr || !steps->is_array() || steps->get_array().empty() ||
      steps->get_array().size() > kMaxBatchSteps)
    fields.fail("steps", fmt::format("must be a list of 1 to {} steps", kMaxBatchSteps));
  if (fields.failure()) return *fields.failure();
  for (const boost::json::value& each : steps->get_array()) {
    if (!each.is_object())
      return make_error(Code::kInvalid, "steps: step {} is no object", out.steps.size() + 1);
    auto step = parse_step(each.get_object(), out.steps);
    if (!step.ok()) return std::move(step).error().context(fmt::format("step {}", out.steps.size() + 1));
    out.steps.push_back(std::move(*step));
  }
  return out;
}

}  // namespace atl::guest
