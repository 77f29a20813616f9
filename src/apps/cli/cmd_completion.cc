// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "apps/cli/completion.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"

namespace atl::cli {

void register_completion(Commands& commands) {
  constexpr char kExamples[] =
      "  # for this shell\n"
      "  source <(atoll completion bash)\n"
      "  # for every shell of this user\n"
      "  atoll completion bash > ~/.local/share/bash-completion/completions/atoll\n"
      "  atoll completion zsh > ~/.zfunc/_atoll";
  auto shell = std::make_shared<std::string>();
  CLI::App& app =
      commands.add(nullptr, "completion", "print a completion script for your shell", kExamples,
                   [shell, &commands](const Globals&) -> Result<int> {
                     bool zsh = *shell == "zsh";
                     write_out(zsh ? zsh_completion(commands.root()) : bash_completion(commands.root()));
                     return kExitOk;
                   });
  app.add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
}

}  // namespace atl::cli
