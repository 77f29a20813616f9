// SPDX-License-Identifier: Apache-2.0
//
// WatchTree: one inotify instance over a directory, or over all directories below it. Blocks on the disk: use
// from a worker, one call at a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "guest/accounts.h"
#include "guest/posix.h"

namespace atl::guest {

// What happened, in E2B's words.
enum class WatchType { kCreate, kWrite, kRemove, kRename, kChmod };
std::string_view watch_type_name(WatchType type);  // "EVENT_TYPE_CREATE", ...

// One change below the watched directory.
struct WatchEvent {
  WatchType type;
  std::string name;  // relative to the watched directory; "." is that directory itself
};

// Move-only; owns the inotify instance and the watched directory.
class WatchTree {
 public:
  // kNotFound, or kInvalid when `path` is not a directory.
  static Result<WatchTree> open(const User& user, const std::string& path, bool recursive);

  // Readable when something has happened.
  const Fd& descriptor() const { return inotify_; }
  // Takes what has happened since the last call. Directories that have appeared are watched before this
  // returns, and what was made in them before that is reported too.
  struct Changes {
    std::vector<WatchEvent> events;
    bool lost = false;  // more happened than the kernel or this object keeps
  };
  Changes take();
  // The watched directory, for reading entries.
  int directory() const { return top_.get(); }

 private:
  struct Raw {
    int watch;
    std::uint32_t mask;
    std::string name;
  };
  Result<void> add(int directory, const std::string& relative);
  void add_tree(int parent, const std::string& name, const std::string& relative, std::size_t level,
                Changes* report);
  void handle(const Raw& raw, Changes& changes);
  void directory_appeared(const std::string& relative, Changes& changes);
  void forget_below(const std::string& relative);

  Fd inotify_;
  Fd top_;
  bool recursive_ = false;
  bool full_ = false;
  std::map<int, std::string> paths_;  // watch → path relative to the top, "" for the top
  std::set<std::string> reported_;    // found by looking; their own event is still on its way
};

}  // namespace atl::guest
