// SPDX-License-Identifier: Apache-2.0
#include "guest/file_ops.h"

#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "guest/limits.h"

namespace atl::guest {
namespace {

// Says which path it was, in E2B's words where clients look at them.
Error on_path(Error error, const std::string& path) {
  if (error.sys_errno() == ENOENT) return make_error(Code::kNotFound, "path '{}' does not exist", path);
  if (error.sys_errno() == ENOTDIR)
    return make_error(Code::kInvalid, "path '{}': a part of it is not a directory", path);
  return std::move(error).context(fmt::format("path '{}'", path));
}

template <class T>
Result<T> named(Result<T> result, const std::string& path) {
  if (!result.ok()) return on_path(std::move(result).error(), path);
  return result;
}

Result<Fd> open_parent(const std::string& path, Rights rights) {
  return open_path(std::string(parent_path(path)), O_PATH | O_DIRECTORY, rights);
}

Result<Entry> make_directory_with(const User& user, const std::string& path, Rights rights) {
  auto existing = open_path(path, O_PATH, rights);
  if (existing.ok()) {
    TRY(struct stat st, stat_at(existing->get(), ""));
    if (S_ISDIR(st.st_mode)) return make_error(Code::kExists, "directory already exists: {}", path);
    return make_error(Code::kInvalid, "path already exists but it is not a directory: {}", path);
  }
  if (existing.error().sys_errno() != ENOENT) return std::move(existing).error();
  TRY(Fd made, ensure_directories(path, user, rights));
  return read_entry(made.get(), "", path);
}

Result<Entry> move_with(const User& user, const std::string& source, const std::string& destination,
                        Rights rights) {
  TRY(Fd from, open_parent(source, rights));
  std::string name(base_name(source)), new_name(base_name(destination));
  // Looked at first, so that a missing source makes no parents.
  TRY_VOID(stat_at(from.get(), name));
  TRY(Fd to, ensure_directories(std::string(parent_path(destination)), user, rights));
  if (::renameat(from.get(), name.c_str(), to.get(), new_name.c_str()) != 0) {
    if (errno == EXDEV)
      return make_error(Code::kConflict,
                        "'{}' and '{}' are on different file systems; copy in place of moving", source,
                        destination);
    return Error::from_errno(errno, "move");
  }
  return read_entry(to.get(), new_name, destination);
}

// Removes a tree with few descriptors, however deep it is: below kMaxHeld levels a directory is first moved
// up to the top, where a later round meets it.
class TreeRemover {
 public:
  Result<void> run(int parent, const std::string& name) {
    TRY(top_, open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    TRY_VOID(empty(top_.get(), 0));
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      return Error::from_errno(errno, "remove");
    return success();
  }

 private:
  static constexpr std::size_t kMaxHeld = 32;
  static constexpr std::size_t kBatch = 4096;
  static constexpr int kMaxRounds = 10'000;  // somebody else may keep filling the directory; give up at last

  Result<void> empty(int directory, std::size_t level) {
    for (int round = 0; round < kMaxRounds; ++round) {
      TRY(auto names, read_names(directory, kBatch, Beyond::kIsLeftOut));
      if (names.empty()) return success();
      for (const std::string& name : names) TRY_VOID(remove_one(directory, name, level));
    }
    return Error(Code::kConflict, "remove: the directory is being filled while it is removed");
  }

  Result<void> remove_one(int directory, const std::string& name, std::size_t level) {
    if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return success();
    if (errno != EISDIR && errno != EPERM) return Error::from_errno(errno, fmt::format("remove {}", name));
    if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return success();
    if (errno == ENOTDIR) return Error::from_errno(EPERM, fmt::format("remove {}", name));
    if (errno != ENOTEMPTY && errno != EEXIST)
      return Error::from_errno(errno, fmt::format("remove {}", name));
    if (level >= kMaxHeld) return lift(directory, name);
    auto child = open_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!child.ok()) {
      // Somebody swapped it meanwhile: the next round sees what it is now.
      bool changed = child.error().sys_errno() == ENOENT || child.error().sys_errno() == ENOTDIR ||
                     child.error().sys_errno() == ELOOP;
      return changed ? success() : Result<void>(std::move(child).error().context(name));
    }
    TRY_VOID(empty(child->get(), level + 1));
    if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT && errno != ENOTEMPTY &&
        errno != ENOTDIR)
      return Error::from_errno(errno, fmt::format("remove {}", name));
    return success();
  }

  Result<void> lift(int directory, const std::string& name) {
    std::string lifted = fmt::format(".atoll-remove-{}", lifted_++);
    if (::renameat(directory, name.c_str(), top_.get(), lifted.c_str()) != 0 && errno != ENOENT)
      return Error::from_errno(errno, fmt::format("remove {}", name));
    return success();
  }

  Fd top_;
  std::uint64_t lifted_ = 0;
};

Result<void> remove_with(const std::string& path, Rights rights) {
  auto parent = open_parent(path, rights);
  if (!parent.ok()) {
    if (parent.error().sys_errno() == ENOENT) return success();
    return std::move(parent).error();
  }
  std::string name(base_name(path));
  auto st = stat_at(parent->get(), name);
  if (!st.ok()) {
    if (st.error().sys_errno() == ENOENT) return success();
    return std::move(st).error();
  }
  if (S_ISDIR(st->st_mode)) return TreeRemover().run(parent->get(), name);
  if (::unlinkat(parent->get(), name.c_str(), 0) != 0 && errno != ENOENT)
    return Error::from_errno(errno, "remove");
  return success();
}

// Depth-first, names of each directory in byte order. Holds one directory open at a time.
class Lister {
 public:
  Lister(const Accounts& accounts, std::string base, std::size_t depth)
      : accounts_(accounts), base_(std::move(base)), depth_(depth) {}

  Result<std::string> run(Fd top) {
    TRY_VOID(enter(std::move(top), ""));
    while (!todo_.empty()) {
      Pending next = std::move(todo_.back());
      todo_.pop_back();
      TRY_VOID(visit(next));
    }
    return out_ + "]";
  }

 private:
  struct Pending {
    std::shared_ptr<Fd> directory;
    std::string name;
    std::string relative;  // to the top
    std::size_t level;
  };

  // A directory that the user may not read is read as root; O_NOFOLLOW keeps the walk inside the tree.
  static Result<Fd> open_child(int directory, const std::string& name) {
    auto child = open_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (child.ok() || child.error().sys_errno() != EACCES) return child;
    ActAs root{Identity{}};
    return open_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  }

  Result<void> enter(Fd directory, const std::string& relative, std::size_t level = 1) {
    TRY(auto names, read_names(directory.get(), kMaxEntries));
    if (count_ + names.size() > kMaxEntries)
      return make_error(Code::kExhausted, "path '{}' holds more than {} entries; list with less depth", base_,
                        kMaxEntries);
    count_ += names.size();
    std::sort(names.begin(), names.end(), std::greater<>());
    auto held = std::make_shared<Fd>(std::move(directory));
    for (std::string& name : names) {
      std::string path = relative.empty() ? name : fmt::format("{}/{}", relative, name);
      todo_.push_back({held, std::move(name), std::move(path), level});
    }
    return success();
  }

  Result<void> visit(const Pending& item) {
    auto entry = read_entry(item.directory->get(), item.name, join_path(base_, item.relative));
    if (!entry.ok()) return success();  // gone meanwhile, or not ours to see
    if (out_.size() > 1) out_ += ',';
    out_ += entry_json(*entry, accounts_);
    if (out_.size() > kMaxListBytes)
      return make_error(Code::kExhausted, "the list of '{}' is larger than {} bytes; list with less depth",
                        base_, kMaxListBytes);
    if (!S_ISDIR(entry->st.st_mode) || item.level >= depth_ || item.level >= kMaxTreeDepth) return success();
    auto child = open_child(item.directory->get(), item.name);
    if (!child.ok()) return success();
    return enter(std::move(*child), item.relative, item.level + 1);
  }

  const Accounts& accounts_;
  std::string base_;
  std::size_t depth_;
  std::size_t count_ = 0;
  std::vector<Pending> todo_;  // next one last
  std::string out_ = "[";
};

}  // namespace

Result<Entry> stat_path(const User& user, const std::string& path) {
  return named(with_rights(user, [&](Rights rights) { return read_entry_at(path, rights); }), path);
}

Result<Entry> make_directory(const User& user, const std::string& path) {
  return named(with_rights(user, [&](Rights rights) { return make_directory_with(user, path, rights); }),
               path);
}

Result<Entry> move_path(const User& user, const std::string& source, const std::string& destination) {
  if (source == "/" || destination == "/")
    return Error(Code::kInvalid, "the root directory cannot be moved or replaced");
  return named(with_rights(user, [&](Rights rights) { return move_with(user, source, destination, rights); }),
               source);
}

Result<void> remove_path(const User& user, const std::string& path) {
  if (path == "/") return Error(Code::kInvalid, "the root directory cannot be removed");
  return named(with_rights(user, [&](Rights rights) { return remove_with(path, rights); }), path);
}

Result<std::string> list_json(const User& user, const Accounts& accounts, const std::string& path,
                              std::size_t depth) {
  auto listed = with_rights(user, [&](Rights rights) -> Result<std::string> {
    TRY(Fd top, open_path(path, O_RDONLY | O_DIRECTORY, rights));
    return Lister(accounts, path, std::max<std::size_t>(depth, 1)).run(std::move(top));
  });
  if (!listed.ok() && listed.error().sys_errno() == ENOTDIR)
    return make_error(Code::kInvalid, "path is not a directory: {}", path);
  return named(std::move(listed), path);
}

}  // namespace atl::guest
