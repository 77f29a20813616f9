// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>

#include "probe.h"

namespace atl::escape {

Outcome judge(long result, std::initializer_list<int> past) {
  if (result >= 0) return reached();
  int error = errno;
  if (std::find(past.begin(), past.end(), error) != past.end())
    return {true, error, "past the permission check"};
  return blocked(error);
}

const std::string& arg(const Args& args, std::string_view key) {
  static const std::string kNone;
  auto found = args.find(key);
  return found == args.end() ? kNone : found->second;
}

int int_arg(const Args& args, std::string_view key) { return std::atoi(arg(args, key).c_str()); }

namespace {

std::string read_bytes(const char* path, std::size_t limit) {
  long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return {};
  std::string text(limit, '\0');
  std::size_t have = 0;
  while (have < limit) {
    long n = raw(SYS_read, fd, text.data() + have, limit - have);
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  int error = errno;
  raw(SYS_close, fd);
  text.resize(have);
  errno = error;
  return text;
}

void make_printable(std::string& text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c != '\n' && (c < 0x20 || c > 0x7e); }, '.');
}

}  // namespace

std::string read_text(const char* path, std::size_t limit) {
  std::string text = read_bytes(path, limit);
  make_printable(text);
  return text;
}

Outcome try_write(const char* path, std::string_view text) {
  long fd = raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return blocked(errno, "open");
  if (text.empty()) return reached("open for writing");
  long n = raw(SYS_write, fd, text.data(), text.size());
  return n < 0 ? blocked(errno, "opened, but write failed") : reached("written");
}

Outcome try_read(const char* path, std::size_t limit) {
  errno = 0;
  std::string text = read_bytes(path, limit);
  if (text.empty()) return blocked(errno, errno == 0 ? "empty" : "open or read");
  if (text.find_first_not_of('\0') == std::string::npos) return blocked(0, "only zeros");
  make_printable(text);
  return reached(text);
}

std::string find_needle(std::string_view data, std::string_view needle) {
  std::string found;
  if (needle.empty()) return found;
  for (std::size_t at = data.find(needle); at != std::string_view::npos; at = data.find(needle, at + 1)) {
    std::string piece(data.substr(at, needle.size() + 64));
    std::replace_if(piece.begin(), piece.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '.');
    found += piece + "\n";
    if (found.size() > 8192) break;
  }
  return found;
}

}  // namespace atl::escape
