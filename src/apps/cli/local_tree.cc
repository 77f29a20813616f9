// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/local_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "apps/cli/path_spec.h"
#include "base/random.h"
#include "base/text.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

mode_t current_umask() {
  mode_t mask = ::umask(022);
  ::umask(mask);
  return mask;
}

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

}  // namespace

LocalFile::~LocalFile() {
  if (file_ && !temporary_.empty()) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

Result<void> LocalFile::write(std::string_view data) {
  auto written = sys::write_all(file_.get(), data);
  if (!written.ok()) return std::move(written).error().context(printable(name_));
  return success();
}

Result<void> LocalFile::commit(mode_t mode) {
  if (::fchmod(file_.get(), mode & 0777 & ~current_umask()) != 0)
    return Error::from_errno(errno, "chmod " + printable(name_));
  if (::renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0) {
    return Error::from_errno(errno, "write " + printable(name_));
  }
  temporary_.clear();
  return success();
}

Result<LocalTree> LocalTree::open(const std::string& path) {
  // The directory that the user named may itself be a link: that is the user's choice.
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  sys::Fd fd(::open(path.c_str(), kFlags));
  if (!fd && errno == ENOENT) {
    if (::mkdir(path.c_str(), 0777) != 0) return Error::from_errno(errno, "create directory " + path);
    fd = sys::Fd(::open(path.c_str(), kFlags));
  }
  if (!fd) return Error::from_errno(errno, "open directory " + path);
  return LocalTree(std::move(fd), path);
}

// Walks one component at a time, so that no link can be followed (O_NOFOLLOW guards the last component only).
Result<sys::Fd> LocalTree::directory(std::string_view relative) {
  TRY(sys::Fd current, root_.duplicate());
  if (relative.empty()) return current;
  for (std::string_view part : split(relative, '/')) {
    std::string name(part);
    if (::mkdirat(current.get(), name.c_str(), 0777) != 0 && errno != EEXIST) {
      return Error::from_errno(errno, fmt::format("create directory {}/{}", path_, printable(relative)));
    }
    sys::Fd next(::openat(current.get(), name.c_str(), kDirectory));
    if (!next)
      return Error::from_errno(errno, fmt::format("open directory {}/{}", path_, printable(relative)));
    current = std::move(next);
  }
  return current;
}

Result<void> LocalTree::make_directory(std::string_view relative, mode_t mode) {
  if (!safe_relative_path(relative))
    return make_error(Code::kCorrupt, "the sandbox named a path that leads out of the target");
  TRY(sys::Fd fd, directory(relative));
  // Stays writable for us, so that what is inside can be copied.
  mode_t wanted = ((mode & 0777) | 0700) & ~current_umask();
  if (::fchmod(fd.get(), wanted) != 0) return Error::from_errno(errno, "chmod " + printable(relative));
  return success();
}

Result<LocalFile> LocalTree::create(std::string_view relative) {
  if (!safe_relative_path(relative))
    return make_error(Code::kCorrupt, "the sandbox named a path that leads out of the target");
  std::size_t slash = relative.rfind('/');
  bool nested = slash != std::string_view::npos;
  TRY(sys::Fd parent, directory(nested ? relative.substr(0, slash) : std::string_view()));
  std::string name(nested ? relative.substr(slash + 1) : relative);
  std::string temporary = ".atoll-" + random_hex(8);
  sys::Fd file(
      ::openat(parent.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return Error::from_errno(errno, fmt::format("create {}/{}", path_, printable(relative)));
  return LocalFile(std::move(parent), std::move(file), std::move(temporary), std::move(name));
}

}  // namespace atl::cli
