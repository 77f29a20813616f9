// SPDX-License-Identifier: Apache-2.0
//
// Watchers of the filesystem service: each queues what happens below one directory until its client takes it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/event.h"
#include "async/scope.h"
#include "guest/accounts.h"
#include "guest/watch_tree.h"
#include "guest/workers.h"

namespace atl::guest {

struct WatchRequest {
  std::string path;  // normal
  User user;
  bool recursive = false;
  bool include_entry = false;
};

// Use from its loop only.
class Watcher {
 public:
  // `readable` is a copy of the tree's descriptor.
  Watcher(async::Executor executor, WatchRequest request, WatchTree tree, Fd readable);

  // The JSON of the oldest filesystem.FilesystemEvent, or nullopt. Events found lost are told once, by
  // lost().
  std::optional<std::string> take();
  bool lost() const { return lost_; }
  void clear_lost() { lost_ = false; }
  async::Event& changed() { return changed_; }
  void close();

 private:
  friend class WatchTable;
  Task<> pump(std::shared_ptr<Watcher> self, Workers& workers, AccountCache& accounts);
  std::string event_json(const WatchEvent& event, const Accounts& accounts) const;

  WatchRequest request_;
  std::optional<WatchTree> tree_;
  async::asio::posix::stream_descriptor readable_;  // a copy of the tree's inotify descriptor
  async::Event changed_;
  std::deque<std::string> queue_;
  bool lost_ = false;
  bool closed_ = false;
  Steady::time_point asked_ = Steady::now();
};
// Shared by the table and by the call that reads its events.
using WatcherPtr = std::shared_ptr<Watcher>;

// All watchers of the sandbox. Use from its loop only.
class WatchTable {
 public:
  explicit WatchTable(async::Executor executor) : executor_(executor), scope_(executor) {}

  // Starts to watch. Call Watcher::close() when done. kExhausted beyond kMaxWatchers.
  Task<Result<WatcherPtr>> watch(WatchRequest request, Workers& workers, AccountCache& accounts);
  // Keeps a watcher for polling under a new id, until remove() or until nobody has asked for kWatcherIdle.
  std::string keep(WatcherPtr watcher);
  WatcherPtr find(const std::string& id);
  bool remove(const std::string& id);
  Task<> shut_down();

 private:
  Task<> run(WatcherPtr watcher, Workers& workers, AccountCache& accounts);
  Task<> expire(std::string id);
  async::Executor executor_;
  async::Scope scope_;
  std::map<std::string, WatcherPtr> polled_;
  std::size_t count_ = 0;
};

}  // namespace atl::guest
