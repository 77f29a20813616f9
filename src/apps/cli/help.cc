// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/help.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "apps/cli/output.h"

namespace atl::cli {
namespace {

constexpr std::size_t kColumn = 24;

std::string heading(std::string_view text) { return "\n" + paint(STDOUT_FILENO, Colour::kBold, text) + "\n"; }

std::string entry(const std::string& left, const std::string& right) {
  if (left.size() + 2 > kColumn) return fmt::format("  {}\n  {:{}}{}\n", left, "", kColumn, right);
  return fmt::format("  {:{}}{}\n", left, kColumn, right);
}

std::string option_names(const CLI::Option& option) {
  std::string out;
  for (const std::string& name : option.get_snames())
    out += fmt::format("{}-{}", out.empty() ? "" : ", ", name);
  for (const std::string& name : option.get_lnames())
    out += fmt::format("{}--{}", out.empty() ? "    " : ", ", name);
  if (option.get_type_size() != 0 && !option.get_type_name().empty()) out += " " + option.get_type_name();
  return out;
}

std::string positional_usage(const CLI::Option& option) {
  std::string name = option.get_name(true, false);
  if (option.get_expected_max() > 1) name += "...";
  return option.get_required() ? name : "[" + name + "]";
}

bool visible(const CLI::App& app) { return !app.get_group().empty(); }

std::string usage(const CLI::App& app, const std::string& rest) {
  std::string out = full_name(app);
  if (!app.get_options().empty()) out += " [OPTIONS]";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) out += " " + positional_usage(*option);
  }
  if (!app.get_subcommands(nullptr).empty()) out += " COMMAND";
  return rest.empty() ? out : out + " " + rest;
}

std::string subcommand_list(const CLI::App& app) {
  std::vector<std::string> groups;
  std::map<std::string, std::string> text;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    if (!visible(*sub)) continue;
    std::string group = sub->get_group();
    if (!text.contains(group)) groups.push_back(group);
    text[group] += entry(sub->get_name(), sub->get_description());
  }
  std::string out;
  for (const std::string& group : groups) out += heading(group) + text[group];
  return out;
}

}  // namespace

std::string full_name(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "atoll";
  return full_name(*app.get_parent()) + " " + app.get_name();
}

std::string help_text(const CLI::App& app, const std::string& rest) {
  std::string out = paint(STDOUT_FILENO, Colour::kBold, "Usage:") + " " + usage(app, rest) + "\n";
  if (!app.get_description().empty()) out += "\n" + app.get_description() + "\n";
  std::string arguments, options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional())
      arguments += entry(option->get_name(true, false), option->get_description());
    else
      options += entry(option_names(*option), option->get_description());
  }
  out += subcommand_list(app);
  if (!arguments.empty()) out += heading("Arguments") + arguments;
  if (!options.empty()) out += heading("Options") + options;
  if (!app.get_footer().empty()) out += heading("Examples") + app.get_footer() + "\n";
  return out;
}

}  // namespace atl::cli
