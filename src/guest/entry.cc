// SPDX-License-Identifier: Apache-2.0
#include "guest/entry.h"

#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "base/text.h"
#include "guest/json.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

constexpr std::string_view kPrefix = "user.e2b.";

std::string_view file_type(const Entry& entry) {
  if (entry.target && entry.target_mode == 0) return "FILE_TYPE_SYMLINK";
  mode_t mode = entry.target ? entry.target_mode : entry.st.st_mode;
  if (S_ISDIR(mode)) return "FILE_TYPE_DIRECTORY";
  return "FILE_TYPE_FILE";
}

// Directories of some file systems (tmpfs, btrfs) have size 0; clients take that for "nothing there".
std::uint64_t shown_size(const struct stat& st) {
  if (S_ISDIR(st.st_mode) && st.st_size <= 0) return 4096;
  return st.st_size < 0 ? 0 : static_cast<std::uint64_t>(st.st_size);
}

void follow_link(int directory, const std::string& name, Entry& entry) {
  entry.target = entry.path;
  auto target = open_at(directory, name, O_PATH);
  if (!target.ok()) return;
  auto st = stat_at(target->get(), "");
  if (st.ok()) entry.target_mode = st->st_mode;
  auto path = path_of(target->get());
  if (path.ok() && path->starts_with('/')) entry.target = std::move(*path);
}

// Names of the attributes of a file, each ended by NUL.
std::string attribute_names(const std::string& path) {
  std::string names(4096, '\0');
  ssize_t size = ::listxattr(path.c_str(), names.data(), names.size());
  if (size < 0 && errno == ERANGE) {
    names.resize(64 * kKiB);  // XATTR_LIST_MAX
    size = ::listxattr(path.c_str(), names.data(), names.size());
  }
  names.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return names;
}

}  // namespace

Metadata read_metadata(int fd) {
  Metadata out;
  std::string path = descriptor_path(fd);
  std::string names = attribute_names(path);
  for (std::string_view name : split(names, '\0')) {
    if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || out.size() == kMaxMetadata) continue;
    std::array<char, kMaxMetadataValue> value;
    ssize_t size = ::getxattr(path.c_str(), std::string(name).c_str(), value.data(), value.size());
    if (size < 0) continue;
    out.emplace(name.substr(kPrefix.size()), std::string_view(value.data(), static_cast<std::size_t>(size)));
  }
  return out;
}

Result<void> write_metadata(int fd, const Metadata& metadata) {
  std::string path = descriptor_path(fd);
  std::string names = attribute_names(path);
  for (std::string_view name : split(names, '\0')) {
    if (!name.starts_with(kPrefix) || metadata.contains(std::string(name.substr(kPrefix.size())))) continue;
    if (::removexattr(path.c_str(), std::string(name).c_str()) != 0 && errno != ENODATA)
      return Error::from_errno(errno, "remove file metadata");
  }
  for (const auto& [key, value] : metadata) {
    std::string name = std::string(kPrefix) + key;
    if (::setxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0) == 0) continue;
    if (errno == EOPNOTSUPP) return Error(Code::kUnsupported, "this file system does not keep file metadata");
    return Error::from_errno(errno, "set file metadata");
  }
  return success();
}

Result<Entry> read_entry(int directory, const std::string& name, const std::string& path) {
  Fd held;
  int fd = directory;
  if (!name.empty()) {
    TRY(held, open_at(directory, name, O_PATH | O_NOFOLLOW));
    fd = held.get();
  }
  Entry entry;
  entry.name = std::string(base_name(path));
  entry.path = path;
  TRY(entry.st, stat_at(fd, ""));
  if (S_ISLNK(entry.st.st_mode)) follow_link(directory, name, entry);
  if (S_ISREG(entry.st.st_mode) || S_ISDIR(entry.st.st_mode)) entry.metadata = read_metadata(fd);
  return entry;
}

Result<Entry> read_entry_at(const std::string& path, Rights rights) {
  TRY(Fd parent, open_path(std::string(parent_path(path)), O_PATH | O_DIRECTORY, rights));
  return read_entry(parent.get(), path == "/" ? std::string() : std::string(base_name(path)), path);
}

std::string entry_json(const Entry& entry, const Accounts& accounts) {
  ObjectWriter out;
  out.text("name", entry.name).raw("type", fmt::format("\"{}\"", file_type(entry))).text("path", entry.path);
  if (std::uint64_t size = shown_size(entry.st); size != 0) out.number_text("size", size);
  mode_t mode = entry.target && entry.target_mode != 0 ? entry.target_mode : entry.st.st_mode;
  if ((mode & 0777) != 0) out.number("mode", mode & 0777);
  out.text("permissions", go_mode_text(entry.st.st_mode));
  out.text("owner", accounts.user_name(entry.st.st_uid)).text("group", accounts.group_name(entry.st.st_gid));
  if (auto time = timestamp_text(entry.st.st_mtim)) out.text("modifiedTime", *time);
  if (entry.target) out.text("symlinkTarget", *entry.target);
  if (!entry.metadata.empty()) out.text_map("metadata", entry.metadata);
  return std::move(out).finish();
}

std::string go_mode_text(mode_t mode) {
  std::string out;
  if (S_ISDIR(mode)) out += 'd';
  if (S_ISLNK(mode)) out += 'L';
  if (S_ISBLK(mode) || S_ISCHR(mode)) out += 'D';
  if (S_ISFIFO(mode)) out += 'p';
  if (S_ISSOCK(mode)) out += 'S';
  if ((mode & S_ISUID) != 0) out += 'u';
  if ((mode & S_ISGID) != 0) out += 'g';
  if (S_ISCHR(mode)) out += 'c';
  if ((mode & S_ISVTX) != 0) out += 't';
  if (out.empty()) out += '-';
  constexpr std::string_view kBits = "rwxrwxrwx";
  for (int bit = 8; bit >= 0; --bit)
    out += (mode >> bit & 1) != 0 ? kBits[static_cast<std::size_t>(8 - bit)] : '-';
  return out;
}

std::optional<std::string> timestamp_text(const struct timespec& time) {
  constexpr std::int64_t kYear1 = -62'135'596'800, kYear10000 = 253'402'300'800;
  if (time.tv_sec < kYear1 || time.tv_sec >= kYear10000) return std::nullopt;
  struct tm parts = {};
  ::gmtime_r(&time.tv_sec, &parts);
  std::string out = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (time.tv_nsec != 0) out += fmt::format(".{:09}", time.tv_nsec);
  return out + "Z";
}

}  // namespace atl::guest
