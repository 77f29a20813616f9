// SPDX-License-Identifier: Apache-2.0
#include "guest/watch_table.h"

#include "base/random.h"
#include "guest/entry.h"
#include "guest/identity.h"
#include "guest/json.h"
#include "guest/limits.h"

namespace atl::guest {

using async::use_result;

Watcher::Watcher(async::Executor executor, WatchRequest request, WatchTree tree, Fd readable)
    : request_(std::move(request)),
      tree_(std::move(tree)),
      readable_(executor, readable.release()),
      changed_(executor) {}

void Watcher::close() {
  closed_ = true;
  boost::system::error_code ignored;
  readable_.cancel(ignored);
}

std::optional<std::string> Watcher::take() {
  asked_ = Steady::now();
  if (queue_.empty()) return std::nullopt;
  std::string event = std::move(queue_.front());
  queue_.pop_front();
  return event;
}

std::string Watcher::event_json(const WatchEvent& event, const Accounts& accounts) const {
  ObjectWriter out;
  out.text("name", event.name).text("type", watch_type_name(event.type));
  bool may_exist = event.type != WatchType::kRemove && event.type != WatchType::kRename;
  if (request_.include_entry && may_exist) {
    std::string name = event.name == "." ? std::string() : event.name;
    auto entry =
        read_entry(tree_->directory(), name, name.empty() ? request_.path : join_path(request_.path, name));
    if (entry.ok()) out.raw("entry", entry_json(*entry, accounts));
  }
  return std::move(out).finish();
}

Task<> Watcher::pump([[maybe_unused]] std::shared_ptr<Watcher> self, Workers& workers,
                     AccountCache& accounts) {
  while (!closed_) {
    auto [error] =
        co_await readable_.async_wait(async::asio::posix::stream_descriptor::wait_read, use_result);
    if (error || closed_) break;
    struct Batch {
      std::vector<std::string> events;
      bool lost;
    };
    Batch batch = co_await workers.run([this, &accounts] {
      auto changes = tree_->take();
      auto names = accounts.get();
      ActAs as(request_.user.identity);
      Batch out{{}, changes.lost};
      for (const WatchEvent& event : changes.events) out.events.push_back(event_json(event, *names));
      return out;
    });
    lost_ = lost_ || batch.lost;
    for (std::string& event : batch.events) {
      if (queue_.size() >= kMaxWatchEvents) {
        lost_ = true;
        break;
      }
      queue_.push_back(std::move(event));
    }
    changed_.notify_all();
  }
}

Task<Result<WatcherPtr>> WatchTable::watch(WatchRequest request, Workers& workers, AccountCache& accounts) {
  if (count_ >= kMaxWatchers) co_return make_error(Code::kExhausted, "{} watchers run already", count_);
  ++count_;
  auto tree = co_await workers.run(
      [&request] { return WatchTree::open(request.user, request.path, request.recursive); });
  auto readable = tree.ok() ? tree->descriptor().duplicate() : Result<Fd>(tree.error());
  if (!readable.ok()) {
    --count_;
    co_return std::move(readable).error();
  }
  auto watcher =
      std::make_shared<Watcher>(executor_, std::move(request), std::move(*tree), std::move(*readable));
  scope_.spawn("watcher", run(watcher, workers, accounts));
  co_return watcher;
}

Task<> WatchTable::run(WatcherPtr watcher, Workers& workers, AccountCache& accounts) {
  co_await watcher->pump(watcher, workers, accounts);
  // KERNEL: closing the last descriptor of an inotify instance waits for its marks to be freed
  // (fs/notify/group.c), which takes milliseconds and more on a busy machine, so it happens on a worker.
  watcher->readable_.close();
  co_await workers.run([&watcher] {
    watcher->tree_.reset();
    return true;
  });
  --count_;
}

std::string WatchTable::keep(WatcherPtr watcher) {
  std::string id = "w" + random_base36(20);
  polled_[id] = std::move(watcher);
  scope_.spawn("watcher expiry", expire(id));
  return id;
}

Task<> WatchTable::expire(std::string id) {
  while (!scope_.cancelled()) {
    auto found = polled_.find(id);
    if (found == polled_.end()) co_return;
    auto left = found->second->asked_ + kWatcherIdle - Steady::now();
    if (left <= Steady::duration::zero()) {
      remove(id);
      co_return;
    }
    co_await async::sleep_for(left);
  }
}

WatcherPtr WatchTable::find(const std::string& id) {
  auto found = polled_.find(id);
  return found == polled_.end() ? nullptr : found->second;
}

bool WatchTable::remove(const std::string& id) {
  auto found = polled_.find(id);
  if (found == polled_.end()) return false;
  found->second->close();
  polled_.erase(found);
  return true;
}

Task<> WatchTable::shut_down() {
  for (auto& [id, watcher] : polled_) watcher->close();
  scope_.cancel();
  co_await scope_.join();
}

}  // namespace atl::guest
