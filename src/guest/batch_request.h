// SPDX-License-Identifier: Apache-2.0
//
// POST /batch: many steps in one request (docs/guides/batches.md).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "guest/label_right.h"

namespace atl::guest {

// What a step does.
enum class StepKind { kCode, kCommand, kWrite, kRead, kList, kMakeDirectory, kRemove, kMove };

// One step. `text` is the code, the command or the path.
struct BatchStep {
  std::string id;
  std::vector<std::size_t> after;  // steps that must be done before; each is an earlier one
  bool ignore_error = false;
  StepKind kind = StepKind::kCommand;
  std::string text;
  std::string content;                             // kWrite
  std::string destination;                         // kMove
  std::string language;                            // kCode
  std::string context;                             // kCode
  std::string directory;                           // kCommand
  std::string label;                               // kCommand
  std::map<std::string, std::string> environment;  // kCode, kCommand
};

// All of a request.
struct BatchRequest {
  std::string key;  // of the client; empty: none
  bool stop_on_error = true;
  std::string user;  // of commands and files; empty: the default one
  std::vector<BatchStep> steps;
  LabelRight right = LabelRight::kNo;  // of the client
};
// kInvalid names the step and the field.
Result<BatchRequest> parse_batch(std::string_view text);

}  // namespace atl::guest
