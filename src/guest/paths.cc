// SPDX-License-Identifier: Apache-2.0
#include "guest/paths.h"

#include <dirent.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/bytes.h"
#include "base/text.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

std::string expand(std::string_view given, std::string_view home, std::string_view workdir) {
  if (given.empty()) return std::string(workdir.empty() ? home : workdir);
  if (given == "~" || given.starts_with("~/")) return fmt::format("{}/{}", home, given.substr(1));
  if (given.front() == '/') return std::string(given);
  return fmt::format("{}/{}", home, given);
}

// The walk of Rights::kTrusted, one component at a time with a descriptor in hand, so nothing can be swapped
// between looking and going on.
class TrustedWalk {
 public:
  Result<Fd> open(const std::string& path, int flags) {
    push(path);
    TRY(at_, open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY));
    while (!todo_.empty()) {
      std::string name = std::move(todo_.back());
      todo_.pop_back();
      bool last = todo_.empty();
      TRY(Fd next, open_at(at_.get(), name, O_PATH | O_NOFOLLOW));
      TRY(struct stat st, stat_at(next.get(), ""));
      if (S_ISLNK(st.st_mode) && !(last && (flags & O_NOFOLLOW) != 0)) {
        TRY_VOID(follow(next, st));
        continue;
      }
      if (last && (flags & O_PATH) == 0) return open_at(at_.get(), name, flags | O_NOFOLLOW);
      at_ = std::move(next);
    }
    if ((flags & O_PATH) == 0) return open_at(at_.get(), ".", flags);
    if ((flags & O_DIRECTORY) != 0) {
      TRY(struct stat st, stat_at(at_.get(), ""));
      if (!S_ISDIR(st.st_mode)) return Error::from_errno(ENOTDIR, "open");
    }
    return std::move(at_);
  }

 private:
  void push(std::string_view path) {
    auto parts = split(path, '/');
    for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
      if (!it->empty() && *it != ".") todo_.emplace_back(*it);
    }
  }

  Result<void> follow(const Fd& link, const struct stat& st) {
    if (st.st_uid != 0 || on_kernel_file_system(link.get()))
      return Error::from_errno(EACCES, "follow a link");
    if (++links_ > kMaxLinks) return Error::from_errno(ELOOP, "open");
    TRY(std::string target, read_link(link.get(), ""));
    if (todo_.size() > kMaxPath || target.empty()) return Error::from_errno(ENAMETOOLONG, "open");
    push(target);
    if (target.front() == '/') {
      TRY(at_, open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY));
    }
    return success();
  }

  Fd at_;
  std::vector<std::string> todo_;  // next component last
  std::size_t links_ = 0;
};

}  // namespace

Result<std::string> normal_path(std::string_view given, std::string_view home, std::string_view workdir) {
  if (given.size() > kMaxPath) return make_error(Code::kInvalid, "path is longer than {} bytes", kMaxPath);
  if (given.find('\0') != std::string_view::npos) return Error(Code::kInvalid, "path contains a NUL byte");
  if (!valid_utf8(given)) return Error(Code::kInvalid, "path is not valid UTF-8");
  if (given.starts_with('~') && given != "~" && !given.starts_with("~/"))
    return make_error(Code::kInvalid, "path '{}': only '~' and '~/' are expanded", given);
  std::string whole = expand(given, home, workdir);
  std::vector<std::string_view> parts;
  for (std::string_view part : split(whole, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
      continue;
    }
    if (part.size() > kMaxName)
      return make_error(Code::kInvalid, "a name in the path is longer than {} bytes", kMaxName);
    parts.push_back(part);
  }
  std::string out;
  for (std::string_view part : parts) (out += '/') += part;
  if (out.size() >= kMaxPath) return make_error(Code::kInvalid, "path is longer than {} bytes", kMaxPath - 1);
  return out.empty() ? std::string("/") : out;
}

std::string_view parent_path(std::string_view path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash == 0 ? std::string_view("/") : path.substr(0, slash);
}

std::string_view base_name(std::string_view path) {
  return path == "/" ? path : path.substr(path.rfind('/') + 1);
}

std::string join_path(std::string_view directory, std::string_view name) {
  return directory == "/" ? fmt::format("/{}", name) : fmt::format("{}/{}", directory, name);
}

Result<Fd> open_path(const std::string& path, int flags, Rights rights) {
  if ((flags & O_PATH) == 0) flags |= O_NONBLOCK;
  if (rights == Rights::kTrusted) return TrustedWalk().open(path, flags);
  return open_at(AT_FDCWD, path, flags);
}

Result<Fd> ensure_directories(const std::string& path, const User& user, Rights rights) {
  std::vector<std::string> missing;
  std::string existing = path;
  Fd at;
  for (;;) {
    auto opened = open_path(existing, O_PATH | O_DIRECTORY, rights);
    if (opened.ok()) {
      at = std::move(*opened);
      break;
    }
    if (opened.error().sys_errno() != ENOENT || existing == "/")
      return std::move(opened).error().context(existing);
    missing.emplace_back(base_name(existing));
    existing = std::string(parent_path(existing));
  }
  for (auto name = missing.rbegin(); name != missing.rend(); ++name) {
    if (::mkdirat(at.get(), name->c_str(), 0755) != 0 && errno != EEXIST)
      return Error::from_errno(errno, "mkdir").context(path);
    TRY(Fd next, open_at(at.get(), *name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    if (rights == Rights::kTrusted && ::fchown(next.get(), user.identity.uid, user.identity.gid) != 0)
      return Error::from_errno(errno, "chown").context(path);
    at = std::move(next);
  }
  return at;
}

bool on_kernel_file_system(int fd) {
  constexpr std::uint32_t kCgroup1 = CGROUP_SUPER_MAGIC, kCgroup2 = CGROUP2_SUPER_MAGIC;
  struct statfs fs = {};
  if (::fstatfs(fd, &fs) != 0) return true;
  switch (static_cast<std::uint32_t>(fs.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case kCgroup1:
    case kCgroup2:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case BPF_FS_MAGIC:
    case DEVPTS_SUPER_MAGIC: return true;
    default: return false;
  }
}

Result<std::vector<std::string>> read_names(int directory, std::size_t limit, Beyond beyond) {
  std::vector<std::string> names;
  alignas(8) char buffer[8192];
  if (::lseek(directory, 0, SEEK_SET) < 0) return Error::from_errno(errno, "seek");
  for (;;) {
    long got = ::syscall(SYS_getdents64, directory, buffer, sizeof buffer);
    if (got < 0) return Error::from_errno(errno, "read directory");
    if (got == 0) return names;
    for (long at = 0; at < got;) {
      // KERNEL: struct linux_dirent64 of getdents64(2): ino 8, off 8, reclen 2, type 1, then the name with
      // its NUL.
      unsigned short length = 0;
      std::memcpy(&length, buffer + at + 16, sizeof length);
      std::string_view name = buffer + at + 19;
      at += length;
      if (name == "." || name == "..") continue;
      if (names.size() == limit && beyond == Beyond::kIsLeftOut) return names;
      if (names.size() == limit)
        return make_error(Code::kExhausted, "the directory has more than {} entries", limit);
      names.emplace_back(name);
    }
  }
}

std::string descriptor_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

Result<std::string> path_of(int fd) { return read_link(AT_FDCWD, descriptor_path(fd)); }

}  // namespace atl::guest
