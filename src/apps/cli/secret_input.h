// SPDX-License-Identifier: Apache-2.0
//
// Secrets come from standard input: arguments are seen by everybody on the machine, and end up in histories.
#pragma once

#include "apps/cli/api_client.h"
#include "base/secret.h"

namespace atl::cli {

inline constexpr std::size_t kMaxSecret = 64 * 1024;

// From a terminal: one line, asked for by `name` and not shown. Otherwise all of standard input, without one
// line break at its end. Blocking. kInvalid when it is empty, kTooLarge beyond kMaxSecret.
Result<Secret> read_secret(const std::string& name);
// The same from a descriptor that is no terminal.
Result<Secret> read_secret_from(int fd);

// Asks `path` every `interval_s` seconds whether a person has authorized the device, until the answer is yes.
Task<Result<int>> wait_for_device(std::shared_ptr<ApiClient> api, std::string path, int interval_s);

}  // namespace atl::cli
