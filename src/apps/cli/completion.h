// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace atl::cli {

// Completion scripts made from the tree of commands, so that they never tell of an option that is not there.
// Ids and template names are asked of `atoll` itself while completing.
std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);

}  // namespace atl::cli
