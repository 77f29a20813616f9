// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command.h"

#include <signal.h>

#include <algorithm>

#include <CLI/CLI.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/help.h"
#include "apps/cli/output.h"
#include "apps/cli/suggest.h"
#include "base/text.h"

namespace atl::cli {
namespace {

constexpr char kRootHelp[] =
    "Atoll runs code of AI agents in isolated sandboxes on your own machine.\n"
    "Each command has --help with examples, and --json for programs.";

constexpr char kRootExamples[] =
    "  # start Atoll on this machine, then run a program in a throw-away sandbox\n"
    "  sudo atoll up\n"
    "  atoll run python3 -c 'print(1)'\n"
    "  # point any E2B client at this machine\n"
    "  eval \"$(atoll env)\"";

std::string strip_dashes(const std::string& word) {
  std::size_t at = word.find_first_not_of('-');
  return at == std::string::npos ? word : word.substr(at, word.find('=') - at);
}

std::vector<std::string> option_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back(name);
  }
  return words;
}

std::vector<std::string> subcommand_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    if (!sub->get_group().empty()) words.push_back(sub->get_name());
  }
  return words;
}

// What CLI11 says, where that is not how a person would.
std::string plain_words(const CLI::Error& failure) {
  std::string text = failure.what();
  std::size_t colon = text.find(": At Most 1 required");
  return colon == std::string::npos ? text : text.substr(0, colon) + " may be given only once";
}

}  // namespace

Commands::Commands() : root_(std::make_unique<CLI::App>(kRootHelp, "atoll")) {
  root_->require_subcommand(0, 1);
  root_->footer(kRootExamples);
  root_->set_help_flag("-h,--help", "show this help");
  root_->formatter_fn([this](const CLI::App* app, const std::string&, CLI::AppFormatMode) {
    const Rest* rest = rest_of(app);
    return help_text(*app, rest != nullptr ? rest->label : "");
  });
}

Commands::~Commands() = default;

CLI::App& Commands::add(CLI::App* parent, const std::string& name, const std::string& summary,
                        const std::string& examples, Action action) {
  CLI::App& command = *(parent != nullptr ? parent : root_.get())->add_subcommand(name, summary);
  command.group("Commands");
  command.footer(examples);
  command.set_help_flag("-h,--help", "show this help");
  if (action) {
    command.add_flag("--json", globals_.json, "print the result as JSON");
    command
        .add_option("--instance", globals_.instance,
                    "which installation to talk to (default: the current one)")
        ->type_name("NAME");
    actions_.push_back({&command, std::move(action)});
  } else {
    command.require_subcommand(0, 1);
  }
  return command;
}

void Commands::add_list(CLI::App& command, const std::string& names, const std::string& value,
                        std::vector<std::string>* values, const std::string& description) {
  command.add_option(names, *values, description)
      ->type_name(value)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void Commands::take_rest(CLI::App& command, const std::string& label, std::vector<std::string>* words) {
  command.prefix_command();
  rests_.push_back({&command, label, words});
}

void Commands::hide(CLI::App& command) { command.group(""); }

const Commands::Rest* Commands::rest_of(const CLI::App* command) const {
  for (const Rest& rest : rests_) {
    if (rest.command == command) return &rest;
  }
  return nullptr;
}

CLI::App& Commands::deepest() {
  CLI::App* app = root_.get();
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

Error Commands::unknown_word(CLI::App& where, const std::string& word) {
  bool option = word.size() > 1 && word.front() == '-';
  std::string meant =
      suggest(option ? strip_dashes(word) : word, option ? option_words(where) : subcommand_words(where));
  std::string help = fmt::format("see '{} --help'", full_name(where));
  if (option && where.get_parent() == nullptr) help = "options stand behind the command; " + help;
  std::string hint =
      meant.empty() ? help : fmt::format("did you mean '{}{}'? {}", option ? "--" : "", meant, help);
  const char* what = option ? "option" : !subcommand_words(where).empty() ? "command" : "argument";
  return make_error(Code::kInvalid, "'{}' is no {} of '{}'", printable(word), what, full_name(where))
      .with_word("usage")
      .with_hint(hint);
}

// `tail` holds the words behind a "--", which CLI11 has not seen.
Result<void> Commands::collect_rest(CLI::App& command, bool separated, std::vector<std::string> tail) {
  std::vector<std::string> words = command.remaining();
  const Rest* rest = rest_of(&command);
  if (rest == nullptr) {
    if (!words.empty()) return unknown_word(command, words.front());
    return success();
  }
  if (!words.empty() && words.front().size() > 1 && words.front().front() == '-') {
    return unknown_word(command, words.front());
  }
  // A "--" ends our options once; one that comes later belongs to the command that is run.
  if (separated && !words.empty()) words.push_back("--");
  words.insert(words.end(), tail.begin(), tail.end());
  *rest->words = std::move(words);
  return success();
}

Result<void> Commands::parse(std::vector<std::string> arguments) {
  std::vector<std::string> tail;
  bool separated = false;
  auto takes_rest = [&](const std::string& name) {
    return std::any_of(rests_.begin(), rests_.end(),
                       [&](const Rest& rest) { return rest.command->get_name() == name; });
  };
  if (!arguments.empty() && takes_rest(arguments.front())) {
    auto at = std::find(arguments.begin(), arguments.end(), "--");
    separated = at != arguments.end();
    if (separated) tail.assign(at + 1, arguments.end());
    arguments.erase(at, arguments.end());
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes the last word first
  root_->allow_extras();
  for (CLI::App* sub : root_->get_subcommands([](CLI::App*) { return true; })) {
    sub->allow_extras();
    for (CLI::App* leaf : sub->get_subcommands([](CLI::App*) { return true; })) leaf->allow_extras();
  }
  root_->parse(arguments);
  CLI::App& leaf = deepest();
  for (CLI::App* app = leaf.get_parent(); app != nullptr; app = app->get_parent()) {
    if (!app->remaining().empty()) return unknown_word(*app, app->remaining().front());
  }
  return collect_rest(leaf, separated, std::move(tail));
}

int Commands::run(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "--version") arguments.front() = "version";
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  bool as_json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  try {
    auto parsed = parse(std::move(arguments));
    if (!parsed.ok()) {
      print_error(parsed.error(), as_json);
      return kExitAtoll;
    }
  } catch (const CLI::CallForHelp&) {
    write_out(root_->help());
    return kExitOk;
  } catch (const CLI::Error& failure) {
    auto error = make_error(Code::kInvalid, "{}", printable(plain_words(failure)))
                     .with_word("usage")
                     .with_hint(fmt::format("see '{} --help'", full_name(deepest())));
    print_error(error, as_json);
    return kExitAtoll;
  }
  CLI::App& chosen = deepest();
  for (const Bound& bound : actions_) {
    if (bound.command != &chosen) continue;
    auto status = bound.action(globals_);
    if (status.ok()) return *status;
    print_error(status.error(), globals_.json);
    return kExitAtoll;
  }
  write_err(root_->help());  // `atoll` or `atoll template` alone
  return kExitAtoll;
}

int run_command(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is an error value, so that sandboxes are tidied up
  Commands commands;
  register_all(commands);
  return commands.run(std::vector<std::string>(argv + 1, argv + argc));
}

}  // namespace atl::cli
