// SPDX-License-Identifier: Apache-2.0
#include "sys/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace atl::sys {

Result<Fd> open_at(int directory, const std::string& path, int flags, mode_t mode) {
  int fd;
  do fd = ::openat(directory, path.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return Error::from_errno(errno, fmt::format("open {}", path));
  return Fd(fd);
}

Result<Fd> open_file(const std::string& path, int flags, mode_t mode) {
  return open_at(AT_FDCWD, path, flags, mode);
}

Result<Fd> open_beneath(int directory, const std::string& path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd;
  // KERNEL: openat2 may answer EAGAIN when a rename ran at the same time (openat2(2)); trying again is the
  // remedy.
  int tries = 0;
  do fd = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
  while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < 16)));
  if (fd < 0) return Error::from_errno(errno, fmt::format("open {} without following links", path));
  return Fd(static_cast<int>(fd));
}

Result<std::string> read_all(int fd, std::size_t limit) {
  std::string out;
  char buffer[4096];
  for (;;) {
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::from_errno(errno, "read");
    if (n == 0) return out;
    if (out.size() + static_cast<std::size_t>(n) > limit) {
      return make_error(Code::kTooLarge, "more than {} bytes", limit);
    }
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

Result<std::string> read_file_at(int directory, const std::string& path, std::size_t limit) {
  TRY(Fd fd, open_at(directory, path, O_RDONLY));
  Result<std::string> text = read_all(fd.get(), limit);
  if (!text.ok()) return std::move(text).error().context(path);
  return text;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  return read_file_at(AT_FDCWD, path, limit);
}

Result<void> write_file_at(int directory, const std::string& path, std::string_view text) {
  TRY(Fd fd, open_at(directory, path, O_WRONLY));
  ssize_t n;
  do n = ::write(fd.get(), text.data(), text.size());
  while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(text.size())) {
    return Error::from_errno(n < 0 ? errno : EIO, fmt::format("write \"{}\" to {}", text, path));
  }
  return success();
}

Result<std::string> read_file_of(uid_t owner, const std::string& path, std::size_t limit) {
  TRY(Fd fd, open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat about{};
  if (::fstat(fd.get(), &about) != 0) return Error::from_errno(errno, fmt::format("look at {}", path));
  if (!S_ISREG(about.st_mode) || about.st_nlink != 1)
    return make_error(Code::kDenied, "{} is no plain file with one name", path);
  if (about.st_uid != owner && about.st_uid != 0)
    return make_error(Code::kDenied, "{} belongs to user {}, not to {}", path, about.st_uid, owner);
  Result<std::string> text = read_all(fd.get(), limit);
  if (!text) return std::move(text).error().context(path);
  return text;
}

Result<std::string> read_private_file(const std::string& path, std::size_t limit) {
  TRY(Fd fd, open_file(path, O_RDONLY | O_NOFOLLOW));
  struct stat about{};
  if (::fstat(fd.get(), &about) != 0) return Error::from_errno(errno, fmt::format("look at {}", path));
  if (!S_ISREG(about.st_mode)) return make_error(Code::kDenied, "{} is no plain file", path);
  if (about.st_uid != ::geteuid() && about.st_uid != 0) {
    return make_error(Code::kDenied, "{} belongs to user {}, who could replace it", path, about.st_uid)
        .with_hint("chown it to the user of this program, or to root");
  }
  if ((about.st_mode & 077) != 0) {
    return make_error(Code::kDenied, "{} may be read or written by others (mode {:04o})", path,
                      about.st_mode & 07777)
        .with_hint(fmt::format("chmod 0600 {}", path));
  }
  Result<std::string> text = read_all(fd.get(), limit);
  if (!text) return std::move(text).error().context(path);
  return text;
}

Result<void> write_file(const std::string& path, std::string_view text) {
  return write_file_at(AT_FDCWD, path, text);
}

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::from_errno(errno, "write");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return success();
}

Result<void> replace_file(const std::string& path, std::string_view bytes, mode_t mode, Durable durable) {
  std::string temporary = path + ".tmp";
  // A link would not be ours, and what it leads to is not to be written.
  TRY(Fd fd, open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode));
  Result<void> written = write_all(fd.get(), bytes);
  if (!written.ok()) return std::move(written).error().context(temporary);
  if (durable == Durable::kYes && ::fsync(fd.get()) != 0)
    return Error::from_errno(errno, fmt::format("write out {}", temporary));
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return Error::from_errno(errno, fmt::format("rename to {}", path));
  if (durable == Durable::kNo) return success();
  return sync_path(path.substr(0, path.rfind('/')));
}

Result<void> sync_path(const std::string& path) {
  TRY(Fd fd, open_file(path, O_RDONLY));
  if (::fsync(fd.get()) != 0) return Error::from_errno(errno, fmt::format("write out {}", path));
  return success();
}

Result<void> ensure_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return Error::from_errno(errno, fmt::format("mkdir {}", path));
  return success();
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) {
    if (errno == ENOENT) return names;
    return Error::from_errno(errno, fmt::format("list {}", path));
  }
  while (dirent* entry = ::readdir(directory.get())) {
    std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

}  // namespace atl::sys
