// SPDX-License-Identifier: Apache-2.0
#include "template/tree_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sys/files.h"

namespace atl::templates {
namespace {

constexpr std::int64_t kLastSecond = 253'402'300'799;  // 9999-12-31, so that no reader of times overflows

Error refuse(const Entry& entry, std::string_view why) {
  return make_error(Code::kInvalid, "{} {}", describe(entry.path), why).with_word("template_entry_refused");
}

// What openat2 and its relatives say about a hostile tree, in words that name the entry.
Error explain(int number, const Entry& entry, std::string_view doing) {
  switch (number) {
    case ELOOP: return refuse(entry, "passes through a symbolic link made by an earlier entry");
    case ENOTDIR: return refuse(entry, "has a file where its path needs a directory");
    case EEXIST: return refuse(entry, "appears twice");
    case EXDEV: return refuse(entry, "leads out of the tree");
    case ENOSPC:
    case EDQUOT:
      return make_error(Code::kNoSpace, "no space left while writing {}", describe(entry.path))
          .with_hint("free space in the data directory's templates/ folder");
    default: return Error::from_errno(number, fmt::format("{} {}", doing, describe(entry.path)));
  }
}

Result<sys::Fd> open_folder(int root, const std::string& path, int flags) {
  return sys::open_beneath(root, path.empty() ? "." : path, flags | O_DIRECTORY);
}

std::string parent_path(const std::string& path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

timespec at_seconds(std::int64_t seconds) {
  timespec time{};
  time.tv_sec = std::clamp<std::int64_t>(seconds, 0, kLastSecond);
  return time;
}

// Owner first: chown(2) clears the set-user-ID bits that chmod sets.
Result<void> set_owner_and_mode(int fd, const Entry& entry) {
  if (::fchown(fd, static_cast<uid_t>(entry.uid), static_cast<gid_t>(entry.gid)) != 0) {
    return explain(errno, entry, "change the owner of");
  }
  if (::fchmod(fd, entry.mode & 07777) != 0) return explain(errno, entry, "change the mode of");
  return success();
}

Result<void> write_all(int fd, std::span<const char> bytes, const Entry& entry) {
  Result<void> written = sys::write_all(fd, {bytes.data(), bytes.size()});
  return written.ok() ? success() : explain(written.error().sys_errno(), entry, "write");
}

}  // namespace

Result<void> TreeWriter::count(const Entry& entry) {
  if (++totals_.entries > limits_.entries) {
    return make_error(Code::kTooLarge, "the tree has more than {} entries (at {})", limits_.entries,
                      describe(entry.path));
  }
  if (entry.kind != EntryKind::kFile) return success();
  if (entry.size > limits_.bytes - totals_.bytes) {
    return make_error(Code::kTooLarge, "the files are larger than {} MiB in all (at {})", limits_.bytes >> 20,
                      describe(entry.path));
  }
  totals_.bytes += entry.size;
  return success();
}

Result<void> TreeWriter::add(const Entry& entry, const DataSource& data) {
  TRY_VOID(count(entry));
  TRY(Verdict verdict, judge(entry));
  if (verdict == Verdict::kSkip) return success();
  switch (entry.kind) {
    case EntryKind::kDirectory: return add_directory(entry);
    case EntryKind::kSymlink: return add_symlink(entry);
    case EntryKind::kHardlink: return add_hardlink(entry);
    default: return add_file(entry, data);
  }
}

// The descriptor of the entry's parent directory. The last one is kept, because entries come folder by
// folder.
Result<int> TreeWriter::parent_of(const Entry& entry) {
  std::string parent = parent_path(entry.path);
  if (parent_ && parent == parent_path_) return parent_.get();
  Result<sys::Fd> folder = open_folder(root_, parent, O_PATH);
  if (!folder.ok() && folder.error().sys_errno() == ENOENT) {
    TRY_VOID(make_parents(entry, parent));
    folder = open_folder(root_, parent, O_PATH);
  }
  if (!folder.ok()) return explain(folder.error().sys_errno(), entry, "open the folder of");
  parent_ = std::move(*folder);
  parent_path_ = parent;
  return parent_.get();
}

Result<void> TreeWriter::make_parents(const Entry& entry, const std::string& parent) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = parent.find('/', end + 1);
    std::string path = parent.substr(0, end);
    Result<sys::Fd> above = open_folder(root_, parent_path(path), O_PATH);
    if (!above.ok()) return explain(above.error().sys_errno(), entry, "open a folder above");
    if (::mkdirat(above->get(), base_name(path).c_str(), 0755) == 0) {
      implicit_.insert(path);
    } else if (errno != EEXIST) {
      return explain(errno, entry, "make a folder above");
    }
  }
  return success();
}

Result<void> TreeWriter::add_directory(const Entry& entry) {
  if (!entry.path.empty()) {
    TRY(int parent, parent_of(entry));
    bool made = ::mkdirat(parent, base_name(entry.path).c_str(), 0700) == 0;
    if (!made && errno != EEXIST) return explain(errno, entry, "make folder");
    if (!made && implicit_.erase(entry.path) == 0) return refuse(entry, "appears twice");
  }
  Result<sys::Fd> fd = open_folder(root_, entry.path, O_RDONLY);
  if (!fd.ok()) return explain(fd.error().sys_errno(), entry, "open folder");
  directory_times_.emplace_back(entry.path, entry.mtime_s);
  return set_owner_and_mode(fd->get(), entry);
}

Result<void> TreeWriter::add_file(const Entry& entry, const DataSource& data) {
  TRY(int parent, parent_of(entry));
  Result<sys::Fd> file =
      sys::open_beneath(parent, base_name(entry.path), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!file.ok()) return explain(file.error().sys_errno(), entry, "create file");
  int fd = file->get();
  std::uint64_t written = 0;
  while (true) {
    TRY(std::span<const char> bytes, data());
    if (bytes.empty()) break;
    written += bytes.size();
    if (written > entry.size) return refuse(entry, "holds more bytes than its header says");
    TRY_VOID(write_all(fd, bytes, entry));
  }
  if (written != entry.size) return refuse(entry, "holds fewer bytes than its header says");
  TRY_VOID(set_owner_and_mode(fd, entry));
  timespec times[2] = {at_seconds(entry.mtime_s), at_seconds(entry.mtime_s)};
  if (::futimens(fd, times) != 0) return explain(errno, entry, "set the time of");
  return success();
}

Result<void> TreeWriter::add_symlink(const Entry& entry) {
  if (entry.target.empty() || entry.target.size() > kMaxPathBytes ||
      entry.target.find('\0') != std::string::npos) {
    return refuse(entry, "is a symbolic link without a usable target");
  }
  TRY(int parent, parent_of(entry));
  std::string name = base_name(entry.path);
  if (::symlinkat(entry.target.c_str(), parent, name.c_str()) != 0)
    return explain(errno, entry, "create link");
  if (::fchownat(parent, name.c_str(), static_cast<uid_t>(entry.uid), static_cast<gid_t>(entry.gid),
                 AT_SYMLINK_NOFOLLOW) != 0) {
    return explain(errno, entry, "change the owner of");
  }
  timespec times[2] = {at_seconds(entry.mtime_s), at_seconds(entry.mtime_s)};
  if (::utimensat(parent, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
    return explain(errno, entry, "set the time of");
  return success();
}

// Only to a plain file of this tree whose own path has no link in it: a chain of links is how archives have
// climbed out.
Result<void> TreeWriter::add_hardlink(const Entry& entry) {
  Result<sys::Fd> folder = open_folder(root_, parent_path(entry.target), O_PATH);
  if (!folder.ok()) return refuse(entry, "is a hard link to something outside the tree or behind a link");
  struct stat status{};
  std::string target = base_name(entry.target);
  if (::fstatat(folder->get(), target.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return refuse(entry, "is a hard link to a file that is not in the tree");
  }
  if (!S_ISREG(status.st_mode)) return refuse(entry, "is a hard link to something that is not a plain file");
  TRY(int parent, parent_of(entry));
  if (::linkat(folder->get(), target.c_str(), parent, base_name(entry.path).c_str(), 0) != 0) {
    return explain(errno, entry, "create hard link");
  }
  return success();
}

Result<void> TreeWriter::finish() {
  for (auto entry = directory_times_.rbegin(); entry != directory_times_.rend(); ++entry) {
    TRY(sys::Fd fd, open_folder(root_, entry->first, O_RDONLY));
    timespec times[2] = {at_seconds(entry->second), at_seconds(entry->second)};
    if (::futimens(fd.get(), times) != 0) {
      return Error::from_errno(errno, fmt::format("set the time of {}", describe(entry->first)));
    }
  }
  return success();
}

}  // namespace atl::templates
