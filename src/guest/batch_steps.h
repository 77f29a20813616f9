// SPDX-License-Identifier: Apache-2.0
//
// What each kind of step of a batch does.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "async/event.h"
#include "guest/batch_request.h"

namespace atl::guest {

using async::Task;

struct Guest;

// The batch as its steps see it.
struct StepContext {
  Guest& guest;
  const std::string& user;
  LabelRight right;       // of the client
  async::Event& changed;  // also when `cancelled` turns true
  const bool& cancelled;
  std::function<void(std::string_view event)> say;  // output of the step, as JSON
};

// How a step ended that could be carried out.
struct StepResult {
  bool ok = true;
  std::string json;  // of its result; empty: none
};
Task<Result<StepResult>> run_step(StepContext& context, const BatchStep& step);

// A text as JSON.
std::string json_text(std::string_view text);

}  // namespace atl::guest
