// SPDX-License-Identifier: Apache-2.0
#include "template/build.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdlib>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/units.h"
#include "sys/files.h"
#include "template/archive_reader.h"
#include "template/folder_reader.h"
#include "template/image.h"
#include "template/jail.h"
#include "template/root_finish.h"

namespace atl::templates {
namespace {

// Shares of the whole build, from a run with nothing cached.
constexpr int kImagePercent = 90;
constexpr int kSealPercent = 97;

struct Phase {
  std::string_view line;  // how mmdebstrap's message begins
  int percent;
  std::string_view text;
};
constexpr std::array<Phase, 6> kPhases = {{
    {"I: running apt-get update", 2, "fetching package lists"},
    {"I: downloading packages", 8, "downloading packages"},
    {"I: extracting archives", 30, "unpacking the core system"},
    {"I: installing essential", 35, "installing the core system"},
    {"I: installing remaining", 45, "installing the packages"},
    {"I: cleaning package lists", 85, "cleaning up"},
}};

constexpr std::size_t kMaxProgram = 256 * kMiB;
constexpr std::size_t kStampDigits = 16;  // of a program's SHA-256

// Where the jail can read and start it.
Result<void> copy_program(const std::string& from, const std::string& to) {
  TRY(std::string bytes, sys::read_file(from, kMaxProgram));
  return sys::replace_file(to, bytes, 0755);
}

Result<void> write_file(const std::string& path, const std::string& text) {
  return sys::replace_file(path, text, 0644);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Only what a download needs: the environment must not carry secrets of the caller into package scripts.
std::vector<std::string> download_environment() {
  std::vector<std::string> environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/tmp",
                                          "TMPDIR=/tmp", "DEBIAN_FRONTEND=noninteractive"};
  for (const char* name :
       {"http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

JailSpec host_jail(const Workspace& work, Network network) {
  JailSpec jail;
  jail.work = work.path();
  jail.view = View::kHost;
  jail.network = network;
  return jail;
}

// Runs a job on work/tree in the parser's jail, which shows the work folder as "/".
Result<void> with_tree(const Workspace& work, int source, const std::function<Result<void>(int tree)>& job) {
  JailSpec jail;
  jail.work = work.path();
  jail.source = source;
  return run_job(jail, [&job]() -> Result<void> {
    TRY(sys::Fd tree, sys::open_file("/tree", O_RDONLY | O_DIRECTORY));
    return job(tree.get());
  });
}

Result<Manifest> make_image(const Builds& builds, Workspace& work, Manifest manifest,
                            const Progress& progress) {
  TRY_VOID(with_tree(work, -1, finish_root));
  progress(kImagePercent, "writing the image");
  TRY_VOID(write_image(work.path()));
  progress(kSealPercent, "checking and storing the image");
  manifest.default_user = kDefaultUser;
  manifest.workdir = kDefaultWorkdir;
  manifest.created = system_clock().now();
  return builds.publish(work, std::move(manifest));
}

Result<void> unpack_archive(const Workspace& work, int archive, const TreeLimits& limits) {
  return with_tree(work, -1, [&](int root) -> Result<void> {
    std::setlocale(LC_CTYPE, "C.UTF-8");  // names in pax headers are UTF-8
    TreeWriter tree(root, limits);
    return read_archive(archive, tree, limits);
  });
}

Result<void> copy_folder(const Workspace& work, const std::string& folder, const TreeLimits& limits) {
  TRY(sys::Fd view, mapped_view(folder));
  return with_tree(work, view.get(), [&](int root) -> Result<void> {
    TRY(sys::Fd source, sys::open_file("/source", O_RDONLY | O_DIRECTORY));
    TreeWriter tree(root, limits);
    return read_folder(source.get(), tree);
  });
}

}  // namespace

Result<std::string> recipe_stamp(const Recipe& recipe, const std::string& interpreter) {
  if (!recipe.interpreter) return std::string(recipe.version);
  TRY(std::string bytes, sys::read_file(interpreter, kMaxProgram));
  return fmt::format("{}-{}", recipe.version, hex_encode(sha256(bytes)).substr(0, kStampDigits));
}

Result<Manifest> build_recipe(const Builds& builds, const Recipe& recipe, const std::string& suite,
                              const std::string& interpreter, const Progress& progress) {
  progress(0, "preparing");
  TRY(Workspace work, builds.start());
  AptHost host = read_apt_host(suite, work.path());
  TRY_VOID(write_file(work.path() + "/finish.sh", recipe_script(recipe, suite)));
  if (recipe.interpreter) TRY_VOID(copy_program(interpreter, work.path() + "/" + kInterpreterFile));
  if (!host.sources.empty()) TRY_VOID(write_file(work.path() + "/sources.list", joined(host.sources)));
  if (!host.options.empty()) TRY_VOID(write_file(work.path() + "/apt.conf", joined(host.options)));
  Result<void> built = run_program(host_jail(work, Network::kHost), recipe_command(recipe, suite, host),
                                   download_environment(), [&](std::string_view line) {
                                     for (const Phase& phase : kPhases) {
                                       if (line.starts_with(phase.line)) progress(phase.percent, phase.text);
                                     }
                                   });
  if (!built.ok()) {
    return std::move(built)
        .error()
        .context(fmt::format("build {} from Debian's packages", recipe.name))
        .with_hint(
            "check that this machine reaches its Debian mirror ('apt-get update') and run it again; nothing "
            "was left behind");
  }
  Manifest manifest;
  manifest.name = recipe.name;
  manifest.source = "debian";
  manifest.suite = suite;
  TRY(manifest.recipe, recipe_stamp(recipe, interpreter));
  manifest.memory_mb = recipe.memory_mb;
  return make_image(builds, work, std::move(manifest), progress);
}

Result<Manifest> build_from(const Builds& builds, const SourceRequest& request, const Progress& progress) {
  progress(0, "reading " + request.from);
  sys::Fd source(::open(request.from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!source || ::fstat(source.get(), &status) != 0) {
    return Error::from_errno(errno, "open " + request.from).with_hint("give a folder or a tar archive");
  }
  bool folder = S_ISDIR(status.st_mode);
  if (!folder && !S_ISREG(status.st_mode)) {
    return make_error(Code::kInvalid, "{} is neither a folder nor a file", request.from);
  }
  TRY(Workspace work, builds.start());
  TRY_VOID(folder ? copy_folder(work, request.from, request.limits)
                  : unpack_archive(work, source.get(), request.limits));
  Manifest manifest;
  manifest.name = request.name;
  manifest.source = folder ? "folder" : "tarball";
  return make_image(builds, work, std::move(manifest), progress);
}

}  // namespace atl::templates
