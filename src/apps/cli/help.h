// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace atl::cli {

// The text of --help: usage, what it does, arguments, options, subcommands, examples.
// `rest` names the words that the command takes untouched, as in "COMMAND [ARGUMENT...]"; empty for none.
std::string help_text(const CLI::App& app, const std::string& rest);
// "atoll run", "atoll template build".
std::string full_name(const CLI::App& app);

}  // namespace atl::cli
