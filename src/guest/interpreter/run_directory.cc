// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/run_directory.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "guest/interpreter/limits.h"
#include "sys/files.h"

namespace atl::guest::interpreter {
namespace {

constexpr std::string_view kPrefix = ".atoll-interpreter-";

bool is_own_folder(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

// One of one boot of this sandbox says nothing about the next one, whose kernels are new anyway.
std::string use_prefix() {
  std::string boot = sys::read_file("/proc/sys/kernel/random/boot_id").value_or("unknown");
  return fmt::format("used-{}-", trim(boot));
}

// A kernel has the path of its connection file, or of its pipes, among its arguments.
void kill_kernels(const std::string& run_directory) {
  for (const std::string& name : sys::list_directory("/proc").value_or({})) {
    auto pid = parse_number<pid_t>(name);
    if (!pid || *pid == ::getpid()) continue;
    std::string arguments = sys::read_file("/proc/" + name + "/cmdline", kMaxCommandLine).value_or("");
    // KERNEL: a process of another user is not touched (kill(2)).
    if (arguments.find(run_directory + "/") != std::string::npos) ::kill(*pid, SIGKILL);
  }
}

}  // namespace

std::string run_parent(const std::string& memory, const std::string& disk) {
  struct statfs info{};
  bool fits = ::statfs(memory.c_str(), &info) == 0 && info.f_type == TMPFS_MAGIC &&
              ::access(memory.c_str(), W_OK | X_OK) == 0;
  return fits ? memory : disk;
}

Result<std::string> make_run_directory(const std::string& parent) {
  std::string path = fmt::format("{}/{}XXXXXX", parent, kPrefix);
  if (::mkdtemp(path.data()) == nullptr) return Error::from_errno(errno, "make a folder in " + parent);
  return path;
}

Result<void> keep_run_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return success();
  if (errno != EEXIST) return Error::from_errno(errno, "make the folder " + path);
  struct stat info{};
  bool ours = is_own_folder(path) && ::lstat(path.c_str(), &info) == 0 && (info.st_mode & 077) == 0;
  if (ours) return success();
  return make_error(Code::kDenied, "{} is no folder of this user alone any more", path)
      .with_hint("remove it");
}

Result<void> note_use(const std::string& run_directory, const std::string& language) {
  return sys::replace_file(fmt::format("{}/{}{}", run_directory, use_prefix(), language), "", 0600);
}

std::set<std::string> sweep_earlier_lives(const std::string& parent) {
  std::set<std::string> used;
  std::string prefix = use_prefix();
  for (const std::string& name : sys::list_directory(parent).value_or({})) {
    std::string path = parent + "/" + name;
    if (!name.starts_with(kPrefix) || !is_own_folder(path)) continue;
    for (const std::string& file : sys::list_directory(path).value_or({}))
      if (file.starts_with(prefix)) used.insert(file.substr(prefix.size()));
    kill_kernels(path);
    std::error_code failure;
    std::filesystem::remove_all(path, failure);
  }
  return used;
}

}  // namespace atl::guest::interpreter
