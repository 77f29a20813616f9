// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/log_rotation.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sys/fd.h"

namespace atl::cli {
namespace {
constexpr std::size_t kTailBytes = 64 * kKiB;
}  // namespace

Result<void> rotate_log(const std::string& path, std::uint64_t limit) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) <= limit) return success();
  for (unsigned n = kOldLogs; n > 1; --n) {
    ::rename(fmt::format("{}.{}", path, n - 1).c_str(), fmt::format("{}.{}", path, n).c_str());
  }
  sys::Fd from(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!from) return Error::from_errno(errno, "open " + path);
  std::string copy = path + ".1";
  sys::Fd to(::open(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!to) return Error::from_errno(errno, "create " + copy);
  for (;;) {
    ssize_t n = ::copy_file_range(from.get(), nullptr, to.get(), nullptr, std::size_t{1} << 30, 0);
    if (n < 0) return Error::from_errno(errno, "copy " + path);
    if (n == 0) break;
  }
  if (::ftruncate(from.get(), 0) != 0) return Error::from_errno(errno, "empty " + path);
  return success();
}

std::string tail_of(const std::string& path, std::size_t lines) {
  sys::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  off_t size = ::lseek(fd.get(), 0, SEEK_END);
  off_t start = std::max<off_t>(0, size - static_cast<off_t>(kTailBytes));
  std::string text(static_cast<std::size_t>(size - start), '\0');
  ssize_t n = ::pread(fd.get(), text.data(), text.size(), start);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  std::size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (std::size_t found = 0; at > 0 && (text[at - 1] != '\n' || ++found < lines);) --at;
  return text.substr(at);
}

}  // namespace atl::cli
