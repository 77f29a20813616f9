// SPDX-License-Identifier: Apache-2.0
#include "guest/watch_tree.h"

#include <linux/openat2.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "guest/limits.h"
#include "guest/paths.h"
#include "guest/upload.h"

namespace atl::guest {
namespace {

constexpr std::uint32_t kInterest = IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_DELETE | IN_MOVED_FROM |
                                    IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK;

std::string below(const std::string& relative, const std::string& name) {
  return relative.empty() ? name : fmt::format("{}/{}", relative, name);
}

}  // namespace

std::string_view watch_type_name(WatchType type) {
  switch (type) {
    case WatchType::kCreate: return "EVENT_TYPE_CREATE";
    case WatchType::kWrite: return "EVENT_TYPE_WRITE";
    case WatchType::kRemove: return "EVENT_TYPE_REMOVE";
    case WatchType::kRename: return "EVENT_TYPE_RENAME";
    case WatchType::kChmod: return "EVENT_TYPE_CHMOD";
  }
  return "EVENT_TYPE_UNSPECIFIED";
}

Result<WatchTree> WatchTree::open(const User& user, const std::string& path, bool recursive) {
  WatchTree tree;
  auto top =
      with_rights(user, [&](Rights rights) { return open_path(path, O_RDONLY | O_DIRECTORY, rights); });
  if (!top.ok()) {
    if (top.error().sys_errno() == ENOENT)
      return make_error(Code::kNotFound, "path '{}' does not exist", path);
    if (top.error().sys_errno() == ENOTDIR)
      return make_error(Code::kInvalid, "path is not a directory: {}", path);
    return std::move(top).error().context(fmt::format("path '{}'", path));
  }
  tree.top_ = std::move(*top);
  tree.recursive_ = recursive;
  tree.inotify_ = Fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!tree.inotify_) return Error::from_errno(errno, "make a watcher").with_code(Code::kExhausted);
  TRY_VOID(tree.add(tree.top_.get(), ""));
  if (recursive) {
    auto names = read_names(tree.top_.get(), kMaxEntries, Beyond::kIsLeftOut);
    for (const std::string& name : std::move(names).value_or({}))
      tree.add_tree(tree.top_.get(), name, name, 1, nullptr);
  }
  if (tree.full_)
    return make_error(Code::kExhausted,
                      "path '{}' has more than {} directories, or the sandbox's limit of watches is reached",
                      path, kMaxWatchedDirectories);
  return tree;
}

// KERNEL: inotify_add_watch(2) takes a path only; /proc/self/fd/N names the open directory itself, so no link
// of the workload can lead it elsewhere. The same directory gives the same number again, also after it has
// been renamed.
Result<void> WatchTree::add(int directory, const std::string& relative) {
  if (paths_.size() >= kMaxWatchedDirectories) {
    full_ = true;
    return make_error(Code::kExhausted, "more than {} directories to watch", kMaxWatchedDirectories);
  }
  int watch = ::inotify_add_watch(inotify_.get(), descriptor_path(directory).c_str(), kInterest);
  if (watch < 0) {
    if (errno == ENOSPC || errno == ENOMEM) full_ = true;
    return Error::from_errno(errno, "watch");
  }
  paths_[watch] = relative;
  return success();
}

// Watches a directory and all below it; other kinds of files are only reported. `report` gets what is found.
void WatchTree::add_tree(int parent, const std::string& name, const std::string& relative, std::size_t level,
                         Changes* report) {
  auto st = stat_at(parent, name);
  if (!st.ok()) return;
  if (report != nullptr && level > 0 && reported_.insert(relative).second) {
    report->events.push_back({WatchType::kCreate, relative});
    if (S_ISREG(st->st_mode) && st->st_size > 0) report->events.push_back({WatchType::kWrite, relative});
  }
  if (!S_ISDIR(st->st_mode) || level >= kMaxTreeDepth || full_) return;
  auto directory = open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory.ok() || !add(directory->get(), relative).ok()) return;
  // Looked at after the watch stands: what is not found here will come as an event.
  auto names = read_names(directory->get(), kMaxEntries, Beyond::kIsLeftOut);
  for (const std::string& child : std::move(names).value_or({}))
    add_tree(directory->get(), child, below(relative, child), level + 1, report);
}

WatchTree::Changes WatchTree::take() {
  Changes changes;
  alignas(struct inotify_event) char buffer[16 * 1024];
  while (changes.events.size() < kMaxWatchEvents) {
    ssize_t got = ::read(inotify_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      reported_.clear();  // every event from before the last look has been taken
      break;
    }
    for (ssize_t at = 0; at < got;) {
      struct inotify_event event;
      std::memcpy(&event, buffer + at, sizeof event);
      const char* name = buffer + at + sizeof event;
      handle({event.wd, event.mask, event.len == 0 ? std::string() : std::string(name)}, changes);
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
  changes.lost = changes.lost || full_;
  return changes;
}

void WatchTree::handle(const Raw& raw, Changes& changes) {
  if ((raw.mask & IN_Q_OVERFLOW) != 0) {
    changes.lost = true;
    return;
  }
  auto watched = paths_.find(raw.watch);
  if (watched == paths_.end()) return;
  if ((raw.mask & IN_IGNORED) != 0) {
    paths_.erase(watched);
    return;
  }
  std::string directory = watched->second;
  bool self = (raw.mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0;
  if (self) {
    // A subdirectory's end is told by its parent.
    if (directory.empty())
      changes.events.push_back(
          {(raw.mask & IN_DELETE_SELF) != 0 ? WatchType::kRemove : WatchType::kRename, "."});
    return;
  }
  if (is_staging_name(raw.name)) return;
  std::string relative =
      raw.name.empty() ? (directory.empty() ? "." : directory) : below(directory, raw.name);
  // A change of a watched subdirectory's own attributes is told twice: by itself, without a name, and by its
  // parent.
  if (raw.name.empty() && !directory.empty()) return;
  if ((raw.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
    bool known = reported_.erase(relative) > 0;
    if (!known) changes.events.push_back({WatchType::kCreate, relative});
    if (recursive_ && (raw.mask & IN_ISDIR) != 0 && !known) directory_appeared(relative, changes);
    return;
  }
  if ((raw.mask & (IN_DELETE | IN_MOVED_FROM)) != 0 && (raw.mask & IN_ISDIR) != 0) forget_below(relative);
  if ((raw.mask & IN_MODIFY) != 0) changes.events.push_back({WatchType::kWrite, relative});
  if ((raw.mask & IN_DELETE) != 0) changes.events.push_back({WatchType::kRemove, relative});
  if ((raw.mask & IN_MOVED_FROM) != 0) changes.events.push_back({WatchType::kRename, relative});
  if ((raw.mask & IN_ATTRIB) != 0) changes.events.push_back({WatchType::kChmod, relative});
}

void WatchTree::directory_appeared(const std::string& relative, Changes& changes) {
  std::size_t slash = relative.rfind('/');
  bool at_top = slash == std::string::npos;
  auto parent = open_at(top_.get(), at_top ? "." : relative.substr(0, slash), O_PATH | O_DIRECTORY, 0,
                        RESOLVE_NO_SYMLINKS);
  if (!parent.ok()) return;
  add_tree(parent->get(), at_top ? relative : relative.substr(slash + 1), relative, 0, &changes);
}

// Watches of a directory that has moved away would go on telling under their old names.
void WatchTree::forget_below(const std::string& relative) {
  std::string prefix = relative + "/";
  for (auto it = paths_.begin(); it != paths_.end();) {
    if (it->second != relative && !it->second.starts_with(prefix)) {
      ++it;
      continue;
    }
    ::inotify_rm_watch(inotify_.get(), it->first);
    it = paths_.erase(it);
  }
}

}  // namespace atl::guest
