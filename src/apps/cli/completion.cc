// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

namespace atl::cli {
namespace {

struct Node {
  std::string path;  // "", "run", "template build"
  std::string description;
  std::vector<std::pair<std::string, std::string>> words;    // subcommands and their summaries
  std::vector<std::pair<std::string, std::string>> options;  // "--env" and its text
  std::vector<std::string> values;                           // "--plain=loopback,anywhere", "-T=@template"
  std::string positional;                                    // kind of the operands
};

// What can stand where a value is wanted: words with commas between, or '@' and a kind that is looked up when
// it is wanted.
std::string value_kind(const CLI::Option& option) {
  std::string type = option.get_type_name();
  std::size_t open = type.find('{');
  std::size_t close = type.rfind('}');
  if (open != std::string::npos && close != std::string::npos) return type.substr(open + 1, close - open - 1);
  if (option.check_lname("template")) return "@template";
  bool names_file = type == "FILE" || type == "PATH";
  bool names_local_folder = type == "DIR" && !option.check_lname("workdir");
  return names_file || names_local_folder ? "@file" : "@none";
}

std::string positional_kind(const CLI::App& app) {
  if (app.get_name() == "cp" || app.get_name() == "ls") return "@path";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    std::string label = option->get_name(true, false);
    if (label == "ID") return "@id";
    if (label == "KEY") return "@key";
    if (label == "APPROVAL") return "@approval";
    bool of_template = app.get_parent() != nullptr && app.get_parent()->get_name() == "template";
    if (label == "NAME" && of_template && app.get_name() != "build") return "@template";
    return value_kind(*option);
  }
  return "@file";
}

void add_option(const CLI::Option& option, Node& node) {
  if (option.get_positional() || option.get_group().empty()) return;
  bool takes_value = option.get_expected_min() > 0;
  for (const std::string& name : option.get_lnames()) {
    node.options.emplace_back("--" + name, option.get_description());
    if (takes_value) node.values.push_back(fmt::format("--{}={}", name, value_kind(option)));
  }
  for (const std::string& name : option.get_snames()) {
    if (takes_value) node.values.push_back(fmt::format("-{}={}", name, value_kind(option)));
  }
}

void collect(const CLI::App& app, const std::string& path, std::vector<Node>& nodes) {
  Node node{path, app.get_description(), {}, {}, {}, positional_kind(app)};
  for (const CLI::Option* option : app.get_options()) add_option(*option, node);
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

std::string quoted(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& word : list) out += fmt::format("{}'{}'", out.empty() ? "" : " ", word);
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
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} walked='' word i
  local words='' options='' values='' kind=''
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$walked $word" in
)SH";

constexpr char kBashTail[] = R"SH(  esac
  local wanted=''
  for word in $values; do
    [[ ${word%%=*} == "$prev" ]] && wanted=${word#*=}
  done
  if [[ -n $wanted ]]; then
    kind=$wanted
  elif [[ $cur == -* ]]; then
    kind=${options// /,}
  elif [[ -n $words ]]; then
    kind=${words// /,}
  fi
  local found='' files=''
  case $kind in
    @none) ;;
    @file) files=yes ;;
    @path) found=$(atoll ps -q 2>/dev/null | sed 's/$/:/') files=yes ;;
    @id) found=$(atoll ps -q 2>/dev/null) ;;
    @template) found=$(atoll template list -q 2>/dev/null) ;;
    @key) found=$(atoll key list 2>/dev/null | sed '1d; s/ .*//') ;;
    @approval) found=$(atoll approvals list -q 2>/dev/null) ;;
    *) found=${kind//,/ } ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$found" -- "$cur"; [[ -z $files ]] || compgen -f -- "$cur")
  [[ -z $files ]] || compopt -o filenames 2>/dev/null
  [[ ${COMPREPLY[0]} != *: ]] || compopt -o nospace 2>/dev/null
}
complete -F _atoll atoll
)SH";

constexpr char kZshTail[] = R"SH(  esac
  local wanted=''
  for word in $values; do
    [[ ${word%%=*} == $words[CURRENT-1] ]] && wanted=${word#*=}
  done
  if [[ -n $wanted ]]; then
    kind=$wanted
  elif [[ $words[CURRENT] == -* ]]; then
    _describe -o option options
    return
  elif (( $#commands )); then
    _describe command commands
    return
  fi
  case $kind in
    @none) ;;
    @file) _files ;;
    @path) compadd -S: -- ${(f)"$(atoll ps -q 2>/dev/null)"}; _files ;;
    @id) compadd -- ${(f)"$(atoll ps -q 2>/dev/null)"} ;;
    @template) compadd -- ${(f)"$(atoll template list -q 2>/dev/null)"} ;;
    @key) compadd -- ${(f)"$(atoll key list 2>/dev/null | sed '1d; s/ .*//')"} ;;
    @approval) compadd -- ${(f)"$(atoll approvals list -q 2>/dev/null)"} ;;
    *) compadd -- ${(s:,:)kind} ;;
  esac
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
    out += fmt::format("{}'{} {}') walked='{}' ;;\n", indent, before, last, node.path);
  }
  return out;
}

}  // namespace

std::string bash_completion(const CLI::App& root) {
  std::vector<Node> nodes;
  collect(root, "", nodes);
  std::string out = kBashHead + walk_cases(nodes, "      ") + "    esac\n  done\n  case $walked in\n";
  for (const Node& node : nodes) {
    out += fmt::format("    '{}') words='{}' options='{}' values='{}' kind='{}' ;;\n", node.path,
                       names_of(node.words), names_of(node.options), fmt::join(node.values, " "),
                       node.positional);
  }
  return out + kBashTail;
}

std::string zsh_completion(const CLI::App& root) {
  std::vector<Node> nodes;
  collect(root, "", nodes);
  std::string out =
      "#compdef atoll\n# zsh completion for atoll. Load it with: source <(atoll completion zsh)\n_atoll() {\n"
      // Not 'path': in zsh that is the list of folders with programs.
      "  local walked='' word i kind=''\n  local -a commands options values\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n    word=$words[i]\n    case \"$walked $word\" in\n" +
      walk_cases(nodes, "      ") + "    esac\n  done\n  case $walked in\n";
  for (const Node& node : nodes) {
    out += fmt::format("    '{}') kind='{}'\n      values=({})\n      commands=(", node.path, node.positional,
                       quoted(node.values));
    for (const auto& [name, text] : node.words) out += fmt::format("'{}:{}' ", name, zsh_text(text));
    out += ")\n      options=(";
    for (const auto& [name, text] : node.options) out += fmt::format("'{}:{}' ", name, zsh_text(text));
    out += ") ;;\n";
  }
  return out + kZshTail;
}

}  // namespace atl::cli
