// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/files.h"

#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "sys/files.h"

namespace atl::cli {
namespace {

// Becomes the user for good; only ever called in a child that ends soon.
bool become(uid_t uid, gid_t gid) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0;
}

Result<void> write_as_child(uid_t uid, gid_t gid, const std::string& path, std::string_view content,
                            mode_t mode) {
  if (::geteuid() == 0 && !become(uid, gid)) return Error::from_errno(errno, "change to the user");
  ::umask(0077);
  TRY_VOID(make_directories(std::filesystem::path(path).parent_path().string(), 0700));
  return sys::replace_file(path, content, mode);
}

}  // namespace

Result<void> replace_file_as(uid_t uid, gid_t gid, const std::string& path, std::string_view content,
                             mode_t mode) {
  pid_t child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork");
  if (child == 0) {
    auto written = write_as_child(uid, gid, path, content, mode);
    int number = written.ok() ? 0 : written.error().sys_errno();
    ::_exit(written.ok() ? 0 : number > 0 && number < 256 ? number : EIO);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return success();
  return Error::from_errno(WIFEXITED(status) ? WEXITSTATUS(status) : EIO,
                           fmt::format("write {} as uid {}", path, uid));
}

Result<void> make_directories(const std::string& path, mode_t mode) {
  if (path.empty() || path == "/") return success();
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return success();
  if (errno != ENOENT) return Error::from_errno(errno, "create directory " + path);
  TRY_VOID(make_directories(std::filesystem::path(path).parent_path().string(), mode));
  return sys::ensure_directory(path, mode);
}

}  // namespace atl::cli
