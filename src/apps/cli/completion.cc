// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace atl::cli {
namespace {

struct Node {
  std::string path;  // "", "run", "template build"
  std::string description;
  std::vector<std::pair<std::string, std::string>> words;    // subcommands and their summaries
  std::vector<std::pair<std::string, std::string>> options;  // "--env" and its text
  std::string positional;                                    // kind of the first operand: "id", "path", ""
};

std::string positional_kind(const CLI::App& app) {
  if (app.get_name() == "cp" || app.get_name() == "ls") return "path";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && option->get_name(true, false) == "ID") return "id";
  }
  return "";
}

void collect(const CLI::App& app, const std::string& path, std::vector<Node>& nodes) {
  Node node{path, app.get_description(), {}, {}, positional_kind(app)};
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      node.options.emplace_back("--" + name, option->get_description());
  }
  std::vector<const CLI::App*> subs;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    if (sub->get_group().empty()) continue;
    node.words.emplace_back(sub->get_name(), sub->get_description());
    subs.push_back(sub);
  }
  nodes.push_back(std::move(node));
  for (const CLI::App* sub : subs)
    collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), nodes);
}

std::string names_of(const std::vector<std::pair<std::string, std::string>>& list) {
  std::string out;
  for (const auto& [name, text] : list) out += (out.empty() ? "" : " ") + name;
  return out;
}

// Inside single quotes of a zsh _describe item: ':' separates, quotes end.
std::string zsh_text(std::string text) {
  std::string out;
  for (char c : text.substr(0, text.find('\n'))) {
    if (c == '\'')
      out += "'\\''";
    else if (c == ':')
      out += "\\:";
    else
      out += c;
  }
  return out;
}

constexpr char kBashHead[] = R"SH(# bash completion for atoll. Load it with: source <(atoll completion bash)
_atoll() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path='' word i
  local words='' options='' operand=''
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$path $word" in
)SH";

constexpr char kBashTail[] = R"SH(  esac
  if [[ $prev == --template || $prev == -T ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(atoll template list -q 2>/dev/null)" -- "$cur")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  elif [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  elif [[ $operand == id ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(atoll ps -q 2>/dev/null)" -- "$cur")
  elif [[ $operand == path ]]; then
    local ids
    ids=$(atoll ps -q 2>/dev/null | sed 's/$/:/')
    mapfile -t COMPREPLY < <(compgen -W "$ids" -- "$cur"; compgen -f -- "$cur")
    [[ ${COMPREPLY[0]} == *: ]] && compopt -o nospace
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -F _atoll atoll
)SH";

constexpr char kZshTail[] = R"SH(  esac
  if [[ $words[CURRENT-1] == (--template|-T) ]]; then
    compadd -- ${(f)"$(atoll template list -q 2>/dev/null)"}
  elif [[ $words[CURRENT] == -* ]]; then
    _describe -o option options
  elif (( $#commands )); then
    _describe command commands
  elif [[ $operand == id ]]; then
    compadd -- ${(f)"$(atoll ps -q 2>/dev/null)"}
  elif [[ $operand == path ]]; then
    compadd -S: -- ${(f)"$(atoll ps -q 2>/dev/null)"}
    _files
  else
    _files
  fi
}
if [[ $funcstack[1] == _atoll ]]; then _atoll "$@"; else compdef _atoll atoll; fi
)SH";

// One pattern per command that can be walked into: "" + "run" -> "run".
std::string walk_cases(const std::vector<Node>& nodes, const char* indent) {
  std::string out;
  for (const Node& node : nodes) {
    if (node.path.empty()) continue;
    std::size_t space = node.path.rfind(' ');
    std::string before = space == std::string::npos ? "" : node.path.substr(0, space);
    std::string last = space == std::string::npos ? node.path : node.path.substr(space + 1);
    out += fmt::format("{}'{} {}') path='{}' ;;\n", indent, before, last, node.path);
  }
  return out;
}

}  // namespace

std::string bash_completion(const CLI::App& root) {
  std::vector<Node> nodes;
  collect(root, "", nodes);
  std::string out = kBashHead + walk_cases(nodes, "      ") + "    esac\n  done\n  case $path in\n";
  for (const Node& node : nodes) {
    out += fmt::format("    '{}') words='{}' options='{}' operand='{}' ;;\n", node.path, names_of(node.words),
                       names_of(node.options), node.positional);
  }
  return out + kBashTail;
}

std::string zsh_completion(const CLI::App& root) {
  std::vector<Node> nodes;
  collect(root, "", nodes);
  std::string out =
      "#compdef atoll\n# zsh completion for atoll. Load it with: source <(atoll completion zsh)\n_atoll() {\n"
      "  local path='' word i operand=''\n  local -a commands options\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n    word=$words[i]\n    case \"$path $word\" in\n" +
      walk_cases(nodes, "      ") + "    esac\n  done\n  case $path in\n";
  for (const Node& node : nodes) {
    out += fmt::format("    '{}') operand='{}'\n      commands=(", node.path, node.positional);
    for (const auto& [name, text] : node.words) out += fmt::format("'{}:{}' ", name, zsh_text(text));
    out += ")\n      options=(";
    for (const auto& [name, text] : node.options) out += fmt::format("'{}:{}' ", name, zsh_text(text));
    out += ") ;;\n";
  }
  return out + kZshTail;
}

}  // namespace atl::cli
