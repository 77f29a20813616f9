// SPDX-License-Identifier: Apache-2.0
#include "template/folder_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>

namespace atl::templates {
namespace {

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
constexpr std::size_t kBlockBytes = 256 * 1024;

EntryKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::kFile;
  if (S_ISDIR(mode)) return EntryKind::kDirectory;
  if (S_ISLNK(mode)) return EntryKind::kSymlink;
  if (S_ISFIFO(mode)) return EntryKind::kFifo;
  return S_ISSOCK(mode) ? EntryKind::kSocket : EntryKind::kDevice;
}

Error failed(std::string_view doing, std::string_view path) {
  Error error = Error::from_errno(errno, fmt::format("{} {}", doing, describe(path)));
  return std::move(error).with_hint(
      "the folder must be readable and must not change while it is being packed");
}

class FolderWalk {
 public:
  explicit FolderWalk(TreeWriter& tree) : tree_(tree), buffer_(kBlockBytes) {}

  Result<void> walk(int folder, const std::string& path) {
    int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) return failed("open", path);
    std::unique_ptr<DIR, DirCloser> dir(::fdopendir(copy));
    if (!dir) return failed("read", path);
    while (true) {
      errno = 0;
      dirent* item = ::readdir(dir.get());
      if (item == nullptr) break;
      std::string name = item->d_name;
      if (name == "." || name == "..") continue;
      TRY_VOID(take(folder, name, path.empty() ? name : path + "/" + name));
    }
    return errno == 0 ? success() : failed("read", path);
  }

  Result<void> take_root(int folder) {
    struct stat status{};
    if (::fstat(folder, &status) != 0) return failed("look at", "");
    return tree_.add(entry_of(status, ""), none());
  }

 private:
  static DataSource none() {
    return [] { return Result<std::span<const char>>(std::span<const char>()); };
  }

  static Entry entry_of(const struct stat& status, std::string path) {
    Entry entry;
    entry.kind = kind_of(status.st_mode);
    entry.path = std::move(path);
    entry.mode = status.st_mode & 07777;
    entry.uid = status.st_uid;
    entry.gid = status.st_gid;
    entry.mtime_s = status.st_mtime;
    entry.size = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
    return entry;
  }

  Result<void> take(int folder, const std::string& name, const std::string& raw_path) {
    TRY(std::string path, clean_path(raw_path));
    struct stat status{};
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return failed("look at", path);
    Entry entry = entry_of(status, path);
    if (entry.kind == EntryKind::kSymlink) return take_symlink(folder, name, std::move(entry));
    if (entry.kind == EntryKind::kFile && status.st_nlink > 1) {
      auto [known, added] = linked_.try_emplace({status.st_dev, status.st_ino}, path);
      if (!added) {
        entry.kind = EntryKind::kHardlink;
        entry.target = known->second;
      }
    }
    if (entry.kind == EntryKind::kFile) return take_file(folder, name, std::move(entry));
    TRY_VOID(tree_.add(entry, none()));
    if (entry.kind != EntryKind::kDirectory) return success();
    sys::Fd inner(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner) return failed("open", path);
    return walk(inner.get(), path);
  }

  Result<void> take_symlink(int folder, const std::string& name, Entry entry) {
    std::string target(kMaxPathBytes + 1, '\0');
    ssize_t size = ::readlinkat(folder, name.c_str(), target.data(), target.size());
    if (size < 0) return failed("read link", entry.path);
    target.resize(static_cast<std::size_t>(size));
    entry.target = target;
    return tree_.add(entry, none());
  }

  Result<void> take_file(int folder, const std::string& name, Entry entry) {
    sys::Fd file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) return failed("open", entry.path);
    return tree_.add(entry, [&]() -> Result<std::span<const char>> {
      ssize_t size = ::read(file.get(), buffer_.data(), buffer_.size());
      if (size < 0) return failed("read", entry.path);
      return std::span<const char>(buffer_.data(), static_cast<std::size_t>(size));
    });
  }

  TreeWriter& tree_;
  std::vector<char> buffer_;
  std::map<std::pair<dev_t, ino_t>, std::string> linked_;  // files with several names, by identity
};

}  // namespace

Result<void> read_folder(int source, TreeWriter& tree) {
  FolderWalk walk(tree);
  TRY_VOID(walk.take_root(source));
  TRY_VOID(walk.walk(source, ""));
  return tree.finish();
}

}  // namespace atl::templates
