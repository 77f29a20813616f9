// SPDX-License-Identifier: Apache-2.0
//
// The tree of subcommands. Each cmd_<name>.cc has one register_<name>(Commands&), which declares options and
// gives the function that does the work. Completion and the list in --help are made from the same tree.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}  // namespace CLI

namespace atl::cli {

// Options that every subcommand has.
struct Globals {
  bool json = false;
  std::string instance;  // --instance: which installation on this machine; empty = the user's current one
};

// What a subcommand does. Returns the exit status; an error is printed by the caller and becomes kExitAtoll.
using Action = std::function<Result<int>(const Globals&)>;

class Commands {
 public:
  Commands();
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // Adds a subcommand below `parent` (nullptr: the root). `examples` is printed below the options of --help,
  // one example a line; lines that begin with '#' explain.
  CLI::App& add(CLI::App* parent, const std::string& name, const std::string& summary,
                const std::string& examples, Action action);
  // An option that may be given several times, one value each.
  void add_list(CLI::App& command, const std::string& names, const std::string& value,
                std::vector<std::string>* values, const std::string& description);
  // The rest of the line, from the first word that is no option of ours, becomes `*words`, untouched.
  void take_rest(CLI::App& command, const std::string& label, std::vector<std::string>* words);
  // A command that only our own programs call: works, but is in no list.
  void hide(CLI::App& command);

  CLI::App& root() { return *root_; }
  Globals& globals() { return globals_; }

  // Parses and runs. Returns the exit status of the process.
  int run(std::vector<std::string> arguments);

 private:
  struct Rest {
    CLI::App* command;
    std::string label;
    std::vector<std::string>* words;
  };
  struct Bound {
    CLI::App* command;
    Action action;
  };
  Result<void> parse(std::vector<std::string> arguments);
  Result<void> collect_rest(CLI::App& command, bool separated, std::vector<std::string> tail);
  const Rest* rest_of(const CLI::App* command) const;
  CLI::App& deepest();
  Error unknown_word(CLI::App& where, const std::string& word);

  std::unique_ptr<CLI::App> root_;
  Globals globals_;
  std::vector<Bound> actions_;
  std::vector<Rest> rests_;
};

// The whole command: registers every subcommand, parses, runs.
int run_command(int argc, char** argv);
void register_all(Commands& commands);

}  // namespace atl::cli
