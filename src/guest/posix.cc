// SPDX-License-Identifier: Apache-2.0
#include "guest/posix.h"

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "guest/limits.h"
#include "guest/open_walk.h"

namespace atl::guest {

Result<Fd> open_at(int directory, const std::string& path, int flags, mode_t mode, std::uint64_t resolve) {
  struct open_how how = {};
  // KERNEL: openat2(2) refuses flags that O_PATH would ignore.
  flags |= O_CLOEXEC | ((flags & O_PATH) != 0 ? 0 : O_NOCTTY);
  how.flags = static_cast<std::uint64_t>(flags);
  how.mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? mode : 0;
  how.resolve = RESOLVE_NO_MAGICLINKS | resolve;
  for (;;) {
    long fd = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0) return Fd(static_cast<int>(fd));
    if (errno == ENOSYS)
      return open_by_walk(directory, path, flags, static_cast<mode_t>(how.mode), how.resolve);
    if (errno != EINTR && errno != EAGAIN) return Error::from_errno(errno, "open");
  }
}

Result<struct stat> stat_at(int directory, const std::string& name) {
  struct stat st = {};
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name.empty() ? AT_EMPTY_PATH : 0);
  if (::fstatat(directory, name.c_str(), &st, flags) != 0) return Error::from_errno(errno, "stat");
  return st;
}

Result<std::size_t> read_full(int fd, std::span<char> out, std::int64_t offset) {
  std::size_t done = 0;
  while (done < out.size()) {
    ssize_t got = offset < 0
                      ? ::read(fd, out.data() + done, out.size() - done)
                      : ::pread(fd, out.data() + done, out.size() - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::from_errno(errno, "read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Result<void> write_full(int fd, std::string_view data) {
  while (!data.empty()) {
    ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Error::from_errno(errno, "write");
    data.remove_prefix(static_cast<std::size_t>(put));
  }
  return success();
}

Result<std::string> read_link(int directory, const std::string& name) {
  std::array<char, kMaxPath> buffer;
  ssize_t size = ::readlinkat(directory, name.c_str(), buffer.data(), buffer.size());
  if (size < 0) return Error::from_errno(errno, "readlink");
  if (static_cast<std::size_t>(size) == buffer.size()) return Error::from_errno(ENAMETOOLONG, "readlink");
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

Result<std::string> read_small_file(const std::string& path, std::size_t limit) {
  TRY(Fd fd, open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK));
  TRY(struct stat st, stat_at(fd.get(), ""));
  if (!S_ISREG(st.st_mode)) return make_error(Code::kInvalid, "{} is not a regular file", path);
  std::string content;
  std::array<char, 4096> block;
  for (;;) {
    TRY(std::size_t got, read_full(fd.get(), block));
    content.append(block.data(), got);
    if (content.size() > limit) return make_error(Code::kTooLarge, "{} has more than {} bytes", path, limit);
    if (got < block.size()) return content;
  }
}

Result<void> write_small_file(const std::string& path, std::string_view content, mode_t mode) {
  TRY(Fd fd, open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOFOLLOW, mode));
  return write_full(fd.get(), content);
}

}  // namespace atl::guest
