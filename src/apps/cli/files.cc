// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/files.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/random.h"
#include "sys/fd.h"

namespace atl::cli {
namespace {

Result<void> write_whole(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::from_errno(errno, "write " + path);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return success();
}

// Becomes the user for good; only ever called in a child that ends soon.
bool become(uid_t uid, gid_t gid) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  sys::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return Error::from_errno(errno, "open " + path);
  std::string out;
  char block[16 * 1024];
  for (;;) {
    ssize_t n = ::read(fd.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::from_errno(errno, "read " + path);
    if (n == 0) return out;
    out.append(block, static_cast<std::size_t>(n));
    if (out.size() > limit) return make_error(Code::kTooLarge, "{} is larger than {} bytes", path, limit);
  }
}

Result<void> replace_file(const std::string& path, std::string_view content, mode_t mode) {
  std::string temporary = path + "." + random_hex(6);
  sys::Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd) return Error::from_errno(errno, "create " + temporary);
  auto written = write_whole(fd.get(), content, temporary);
  if (written.ok() && ::fchmod(fd.get(), mode) != 0) written = Error::from_errno(errno, "chmod " + temporary);
  if (written.ok() && ::fsync(fd.get()) != 0) written = Error::from_errno(errno, "fsync " + temporary);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = Error::from_errno(errno, "rename " + temporary + " to " + path);
  }
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
}

Result<void> replace_file_as(uid_t uid, gid_t gid, const std::string& path, std::string_view content, mode_t mode) {
  pid_t child = ::fork();
  if (child < 0) return Error::from_errno(errno, "fork");
  if (child == 0) {
    if (::geteuid() == 0 && !become(uid, gid)) ::_exit(errno == 0 ? EPERM : errno);
    auto made = make_directories(std::filesystem::path(path).parent_path().string(), 0700);
    auto written = made.ok() ? replace_file(path, content, mode) : std::move(made);
    ::_exit(written.ok() ? 0 : (written.error().sys_errno() != 0 ? written.error().sys_errno() & 0x7f : EIO));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return success();
  return Error::from_errno(WIFEXITED(status) ? WEXITSTATUS(status) : EIO, fmt::format("write {} as uid {}", path, uid));
}

Result<void> make_directories(const std::string& path, mode_t mode) {
  if (path.empty() || path == "/") return success();
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return success();
  if (errno != ENOENT) return Error::from_errno(errno, "create directory " + path);
  TRY_VOID(make_directories(std::filesystem::path(path).parent_path().string(), mode));
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return success();
  return Error::from_errno(errno, "create directory " + path);
}

}  // namespace atl::cli
