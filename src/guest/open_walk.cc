// SPDX-License-Identifier: Apache-2.0
#include "guest/open_walk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "base/text.h"
#include "guest/limits.h"
#include "guest/posix.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxSymlinks = 40;  // as Linux counts, path_resolution(7)
constexpr std::uint64_t kKnown = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

class Walk {
 public:
  Walk(int directory, int flags, mode_t mode, std::uint64_t resolve)
      : directory_(directory), flags_(flags), mode_(mode), resolve_(resolve) {}

  Result<Fd> open(const std::string& path) {
    TRY_VOID(push(path));
    for (;;) {
      bool last = todo_.size() == 1;
      std::string name = std::move(todo_.back());
      todo_.pop_back();
      std::optional<Fd> opened;
      if (last) {
        TRY(opened, open_last(name));
      } else {
        TRY(opened, open_next(name));
      }
      if (!opened) continue;
      if (last) return std::move(*opened);
      at_ = std::move(*opened);
    }
  }

 private:
  int at() const { return at_ ? at_.get() : directory_; }

  // Puts the components of `path` before those that are left.
  Result<void> push(std::string_view path) {
    if (path.empty()) return Error::from_errno(ENOENT, "open");
    if (path.size() >= kMaxPath || todo_.size() > kMaxPath) return Error::from_errno(ENAMETOOLONG, "open");
    // A slash at the end asks for a directory, as "." after it does.
    if (path.ends_with('/')) todo_.emplace_back(".");
    auto parts = split(path, '/');
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (!part->empty()) todo_.emplace_back(*part);
    }
    if (path.front() == '/') {
      at_ = Fd(::openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!at_) return Error::from_errno(errno, "open");
    }
    return success();
  }

  // Nothing: it was a link, whose target is now to be walked.
  Result<std::optional<Fd>> open_next(const std::string& name) {
    Fd next(::openat(at(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return Error::from_errno(errno, "open");
    TRY(struct stat st, stat_at(next.get(), ""));
    if (S_ISLNK(st.st_mode)) {
      TRY_VOID(follow(name));
      return std::optional<Fd>();
    }
    if (!S_ISDIR(st.st_mode)) return Error::from_errno(ENOTDIR, "open");
    return std::optional<Fd>(std::move(next));
  }

  Result<std::optional<Fd>> open_last(const std::string& name) {
    Fd fd(::openat(at(), name.c_str(), flags_ | O_NOFOLLOW | O_CLOEXEC, mode_));
    int error = errno;
    bool link = false;
    if (!fd) {
      bool possible = error == ELOOP || error == ENOTDIR;
      auto st = possible ? stat_at(at(), name) : Result<struct stat>(Error::from_errno(error, "open"));
      link = st.ok() && S_ISLNK(st->st_mode);
    } else if ((flags_ & O_PATH) != 0) {
      TRY(struct stat st, stat_at(fd.get(), ""));
      link = S_ISLNK(st.st_mode);
    }
    if (!link || (flags_ & O_NOFOLLOW) != 0) {
      if (!fd) return Error::from_errno(error, "open");
      return std::optional<Fd>(std::move(fd));
    }
    TRY_VOID(follow(name));
    return std::optional<Fd>();
  }

  Result<void> follow(const std::string& name) {
    if ((resolve_ & RESOLVE_NO_SYMLINKS) != 0 || ++links_ > kMaxSymlinks)
      return Error::from_errno(ELOOP, "open");
    TRY(std::string target, read_link(at(), name));
    TRY(bool magic, is_magic(target));
    if (magic) return Error::from_errno(ELOOP, "open");
    return push(target);
  }

  // KERNEL: the plain links of procfs ("self", "mounts", "net") have relative targets; those that lead to an
  // object read as an absolute path or as "type:[number]" (proc(5)).
  Result<bool> is_magic(std::string_view target) const {
    struct statfs fs = {};
    Fd here(::openat(at(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!here || ::fstatfs(here.get(), &fs) != 0) return Error::from_errno(errno, "open");
    if (static_cast<std::uint32_t>(fs.f_type) != PROC_SUPER_MAGIC) return false;
    return target.starts_with('/') || target.find(':') != std::string_view::npos;
  }

  const int directory_;
  const int flags_;
  const mode_t mode_;
  const std::uint64_t resolve_;
  Fd at_;
  std::vector<std::string> todo_;  // next component last
  std::size_t links_ = 0;
};

}  // namespace

Result<Fd> open_by_walk(int directory, const std::string& path, int flags, mode_t mode,
                        std::uint64_t resolve) {
  if ((resolve & ~kKnown) != 0) return Error::from_errno(EINVAL, "open");
  return Walk(directory, flags, mode, resolve).open(path);
}

}  // namespace atl::guest
