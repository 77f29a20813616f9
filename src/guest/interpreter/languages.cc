// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/languages.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "guest/interpreter/limits.h"
#include "guest/json.h"
#include "sys/files.h"

namespace atl::guest::interpreter {
namespace {

constexpr std::size_t kMaxArguments = 64;
// Node checks how its callbacks are nested, which they are not any more when one was thrown out of its code.
constexpr char kOutOfCode[] = "--no-force-async-hooks-checks";

// A kernel program that comes with the interpreter. "{ours}" is replaced by its folder.
struct Known {
  std::string_view language;
  Speech speech;
  bool takes_environment;
  std::string_view program;  // whose presence means that the language is installed
  std::vector<std::string> arguments;
};

const std::vector<Known>& known() {
  static const std::vector<Known> kList = {
      {"python",
       Speech::kJupyter,
       true,
       "/usr/bin/python3",
       {"{ours}/python_kernel.py", "-f", "{connection_file}"}},
      {"javascript",
       Speech::kLines,
       false,
       "/usr/bin/node",
       {"--experimental-import-meta-resolve", "--no-warnings", kOutOfCode, "{ours}/node_kernel.mjs",
        "{commands}", "{events}", "{interrupts}"}},
      {"typescript",
       Speech::kLines,
       false,
       "/usr/bin/node",
       {"--experimental-import-meta-resolve", "--no-warnings", kOutOfCode, "{ours}/node_kernel.mjs",
        "{commands}", "{events}", "{interrupts}", "typescript"}},
      {"bash", Speech::kFields, false, "/bin/bash", {"{ours}/bash_kernel.sh", "{commands}", "{events}"}},
      {"r",
       Speech::kJupyter,
       false,
       "/usr/bin/R",
       {"--slave", "-f", "{ours}/r_kernel.R", "--args", "{connection_file}"}},
      {"java",
       Speech::kLines,
       false,
       "/usr/bin/java",
       {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "{ours}/JavaKernel.java", "{commands}", "{events}",
        "{interrupts}"}},
  };
  return kList;
}

std::string program_path(const KernelPlaces& places, std::string_view program) {
  return places.root + std::string(program);
}

bool installed(const KernelPlaces& places, const Known& kernel) {
  return ::access(program_path(places, kernel.program).c_str(), X_OK) == 0;
}

KernelSpec spec_of(const KernelPlaces& places, const Known& kernel) {
  KernelSpec spec;
  spec.language = kernel.language;
  spec.speech = kernel.speech;
  spec.takes_environment = kernel.takes_environment;
  spec.command.push_back(program_path(places, kernel.program));
  for (std::string argument : kernel.arguments) {
    constexpr std::string_view kMark = "{ours}";
    if (argument.starts_with(kMark)) argument.replace(0, kMark.size(), places.ours);
    spec.command.push_back(std::move(argument));
  }
  return spec;
}

Result<KernelSpec> read_spec(const std::string& folder, const std::string& name) {
  TRY(std::string text, sys::read_file(fmt::format("{}/{}/kernel.json", folder, name), kMaxKernelSpec));
  return parse_kernel_spec(text);
}

std::vector<std::string> names_in(const std::string& folder) {
  auto names = sys::list_directory(folder);
  if (!names.ok()) return {};
  std::sort(names->begin(), names->end());
  return std::move(*names);
}

}  // namespace

std::string language_name(std::string_view asked) {
  std::string name = to_lower(trim(asked));
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames = {{{"", "python"},
                                                                                    {"py", "python"},
                                                                                    {"python3", "python"},
                                                                                    {"js", "javascript"},
                                                                                    {"node", "javascript"},
                                                                                    {"ts", "typescript"},
                                                                                    {"sh", "bash"},
                                                                                    {"ir", "r"}}};
  for (const auto& [other, one] : kNames) {
    if (name == other) return std::string(one);
  }
  return name;
}

KernelPlaces standard_places(std::string ours, const std::string& home) {
  KernelPlaces places;
  places.ours = std::move(ours);
  places.specs = {home + "/.local/share/jupyter/kernels", "/usr/local/share/jupyter/kernels",
                  "/usr/share/jupyter/kernels"};
  return places;
}

Result<KernelSpec> parse_kernel_spec(std::string_view text) {
  TRY(auto object, parse_message(text));
  Fields fields(object);
  KernelSpec spec;
  spec.speech = Speech::kJupyter;
  spec.language = language_name(fields.text("language"));
  spec.command = fields.texts("argv", kMaxArguments);
  spec.environment = fields.text_map("env", kMaxVariables);
  if (spec.command.empty()) fields.fail("argv", "must not be empty");
  if (fields.failure()) return *fields.failure();
  return spec;
}

Result<KernelSpec> find_kernel(const KernelPlaces& places, const std::string& language) {
  std::set<std::string> there;
  for (const Known& kernel : known()) {
    if (!installed(places, kernel)) continue;
    if (kernel.language == language) return spec_of(places, kernel);
    there.insert(std::string(kernel.language));
  }
  for (const std::string& folder : places.specs) {
    for (const std::string& name : names_in(folder)) {
      auto spec = read_spec(folder, name);
      if (!spec.ok()) continue;
      if (to_lower(name) == language || spec->language == language) return spec;
      there.insert(spec->language);
    }
  }
  return make_error(Code::kInvalid, "the language '{}' is not installed in this sandbox; there are: {}",
                    printable(std::string_view(language).substr(0, kMaxShown)), fmt::join(there, ", "));
}

}  // namespace atl::guest::interpreter
