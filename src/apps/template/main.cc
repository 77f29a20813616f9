// SPDX-License-Identifier: Apache-2.0
//
// atoll-template: makes template builds. `atoll up` and `atoll template` start it; it can be used by hand.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "sys/files.h"
#include "template/base_recipe.h"
#include "template/build.h"
#include "template/machine.h"

namespace {

using namespace atl;             // NOLINT(google-build-using-namespace): one program, one file
using namespace atl::templates;  // NOLINT(google-build-using-namespace)

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

constexpr std::string_view kHelp = R"(atoll-template - make and list template builds (needs root)

  atoll-template build-known --name base|code-interpreter-v1 [--suite bookworm|trixie] [--fresh]
      Build a template that Atoll knows from Debian's packages, or say which build is up to date already.
      --suite  Debian release; default: this host's, else bookworm
      --fresh  build again, for example to take in security updates
  atoll-template build-base [--suite bookworm|trixie] [--fresh]
      The same for the template "base".
  atoll-template build --from FOLDER|TARBALL --name NAME
      Build a template from a root file system: a folder, or a tar archive (also gzip, bzip2, xz, zstd).
      Devices, links that lead outside and other hostile entries are refused by name.
  atoll-template machine [--kernel-tree FOLDER] [--qemu-tree FOLDER]
      Make the machine image of the microvm tier from this host's packages linux-image-cloud-amd64 and
      qemu-system-x86, or from folders into which they were unpacked. A runner uses it from its next start on.
  atoll-template list
  atoll-template remove BUILD

Options of all:
  --data-dir DIR    default /var/lib/atoll; builds are kept in DIR/templates/<build>/
  --json-progress   report as one JSON object a line on standard output:
                    {"event":"progress","percent":N,"text":T}, then {"event":"done","build":ID,...} or
                    {"event":"error","code":C,"message":M,"hint":H}
  --help

Without --json-progress progress goes to standard error and the build's id to standard output.
Exit status: 0 done, 1 failed, 2 wrong usage.
)";

struct Options {
  std::string command;
  std::string operand;
  std::map<std::string, std::string> values;
  bool json = false;
  bool fresh = false;
};

Result<Options> parse_options(const std::vector<std::string>& words) {
  Options options;
  options.values["--data-dir"] = "/var/lib/atoll";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--json-progress")
      options.json = true;
    else if (word == "--fresh")
      options.fresh = true;
    else if (word == "--data-dir" || word == "--suite" || word == "--from" || word == "--name" ||
             word == "--kernel-tree" || word == "--qemu-tree") {
      if (++i == words.size()) return make_error(Code::kInvalid, "{} needs a value", word);
      options.values[word] = words[i];
    } else if (word.starts_with('-')) {
      return make_error(Code::kInvalid, "unknown option {}", word);
    } else if (options.command.empty()) {
      options.command = word;
    } else if (options.operand.empty()) {
      options.operand = word;
    } else {
      return make_error(Code::kInvalid, "unexpected argument {}", word);
    }
  }
  return options;
}

void print_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

void report_progress(const Options& options, int percent, std::string_view text) {
  if (options.json) {
    print_line(fmt::format(R"({{"event":"progress","percent":{},"text":{}}})", percent, json_quote(text)));
  } else {
    fmt::print(stderr, "[{:3}%] {}\n", percent, text);
  }
}

void report_build(const Options& options, const Manifest& manifest, bool cached) {
  if (!options.json) return print_line(manifest.build);
  print_line(
      fmt::format(R"({{"event":"done","build":{},"name":{},"sizeBytes":{},"memoryMB":{},"cached":{}}})",
                  json_quote(manifest.build), json_quote(manifest.name), manifest.size_bytes,
                  manifest.memory_mb, cached));
}

int report_error(const Options& options, const Error& error) {
  if (options.json) {
    print_line(fmt::format(R"({{"event":"error","code":{},"message":{},"hint":{}}})",
                           json_quote(error.word()), json_quote(error.message()), json_quote(error.hint())));
  } else {
    fmt::print(stderr, "atoll-template: {}\n", error.message());
    if (!error.hint().empty()) fmt::print(stderr, "  hint: {}\n", error.hint());
  }
  return kExitFailed;
}

std::string this_host_suite() {
  std::ifstream file("/etc/os-release");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return host_suite(text);
}

std::string beside_this_program(const std::string& name) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).replace_filename(name);
}

// Two that build the same at once would do twice what takes minutes; the second one finds it done.
Result<sys::Fd> lock_recipe(const Builds& builds, const Options& options, const Recipe& recipe) {
  std::string path = fmt::format("{}/.recipe-{}.lock", builds.folder(), recipe.name);
  TRY(sys::Fd fd, sys::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  report_progress(options, 0, "waiting for another build of it");
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return Error::from_errno(errno, "lock " + path);
  }
  return fd;
}

Result<void> build_known_command(const Builds& builds, const Options& options, std::string_view name) {
  const Recipe* recipe = find_recipe(name);
  if (recipe == nullptr) {
    return make_error(Code::kInvalid, "'{}' is no template that Atoll knows how to build: {}", name,
                      recipe_names());
  }
  auto chosen = options.values.find("--suite");
  std::string suite = chosen == options.values.end() ? this_host_suite() : chosen->second;
  if (suite != host_suite("VERSION_CODENAME=" + suite)) {
    return make_error(Code::kInvalid, "--suite must be bookworm or trixie, not '{}'", suite);
  }
  std::string interpreter = beside_this_program("atoll-interpreter");
  TRY(std::string stamp, recipe_stamp(*recipe, interpreter));
  TRY(sys::Fd lock, lock_recipe(builds, options, *recipe));
  for (const Manifest& manifest : builds.list()) {
    bool current = manifest.name == recipe->name && manifest.suite == suite && manifest.recipe == stamp;
    if (options.fresh || !current) continue;
    report_build(options, manifest, true);
    return success();
  }
  TRY(Manifest manifest,
      build_recipe(builds, *recipe, suite, interpreter,
                   [&](int percent, std::string_view text) { report_progress(options, percent, text); }));
  report_build(options, manifest, false);
  return success();
}

Result<void> build_command(const Builds& builds, const Options& options) {
  auto from = options.values.find("--from");
  auto name = options.values.find("--name");
  if (from == options.values.end() || name == options.values.end()) {
    return make_error(Code::kInvalid, "build needs --from FOLDER|TARBALL and --name NAME");
  }
  if (!valid_template_name(name->second)) {
    return make_error(Code::kInvalid, "'{}' is not a template name: 1 to 64 of a-z, 0-9, '-' and '_'",
                      name->second);
  }
  SourceRequest request;
  request.from = from->second;
  request.name = name->second;
  TRY(Manifest manifest, build_from(builds, request, [&](int percent, std::string_view text) {
        report_progress(options, percent, text);
      }));
  report_build(options, manifest, false);
  return success();
}

Result<void> machine_command(const Options& options) {
  MachineParts parts;
  auto kernel = options.values.find("--kernel-tree"), qemu = options.values.find("--qemu-tree");
  if (kernel != options.values.end()) parts.kernel_tree = std::filesystem::absolute(kernel->second);
  if (qemu != options.values.end()) parts.qemu_tree = std::filesystem::absolute(qemu->second);
  parts.first_program = beside_this_program("atoll-vminit");
  parts.monitor_program = beside_this_program("atoll-qmp");
  TRY(MachineManifest manifest, make_machine(options.values.at("--data-dir"), parts));
  print_line(fmt::format("kernel {}, {}, {} MiB", manifest.kernel, printable(manifest.qemu),
                         manifest.size_bytes >> 20));
  return success();
}

Result<void> list_command(const Builds& builds) {
  for (const Manifest& manifest : builds.list()) {
    print_line(fmt::format("{}  {:<16} {:>6} MiB  {}", manifest.build, manifest.name,
                           manifest.size_bytes >> 20, format_rfc3339(manifest.created)));
  }
  return success();
}

Result<void> run(const Options& options) {
  if (::geteuid() != 0) {
    return make_error(Code::kDenied, "template builds need root").with_hint("run it with sudo");
  }
  if (options.command == "machine") return machine_command(options);
  TRY(Builds builds, Builds::open(options.values.at("--data-dir")));
  if (options.command == "build-base") return build_known_command(builds, options, model::kBaseTemplate);
  if (options.command == "build-known") {
    auto name = options.values.find("--name");
    return build_known_command(builds, options, name == options.values.end() ? "" : name->second);
  }
  if (options.command == "build") return build_command(builds, options);
  if (options.command == "list") return list_command(builds);
  if (options.command == "remove") return builds.remove(options.operand);
  return make_error(Code::kInvalid, "unknown command '{}'; see atoll-template --help", options.command);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") {
      fmt::print("{}", kHelp);
      return 0;
    }
  }
  log::set_program("atoll-template");
  ::signal(SIGPIPE, SIG_IGN);
  Result<Options> options = parse_options(words);
  if (!options.ok() || options->command.empty()) {
    if (!options.ok()) fmt::print(stderr, "atoll-template: {}\n", options.error().message());
    fmt::print(stderr, "{}", kHelp);
    return kExitUsage;
  }
  Result<void> done = run(*options);
  return done.ok() ? 0 : report_error(*options, done.error());
}
