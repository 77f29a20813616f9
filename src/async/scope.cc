// SPDX-License-Identifier: Apache-2.0
#include "async/scope.h"

#include "base/check.h"
#include "base/log.h"

namespace atl::async {
namespace {
// Empty for the end that a cancelled task takes when it awaits something more.
std::string describe(const std::exception_ptr& failure, bool cancelled) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& e) {
    if (cancelled && e.code() == asio::error::operation_aborted) return "";
    return e.what();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown exception";
  }
}
}  // namespace

Scope::~Scope() { CHECK(running_.empty(), "scope destroyed with {} running tasks", running_.size()); }

void Scope::spawn(std::string name, Task<> task) {
  if (cancelled_) return;
  auto entry = running_.emplace(running_.end());
  entry->name = std::move(name);
  asio::co_spawn(
      executor_, std::move(task),
      asio::bind_cancellation_slot(entry->signal.slot(), [this, entry](std::exception_ptr failure) {
        auto what = failure ? describe(failure, cancelled_) : "";
        if (!what.empty()) log::error("task ended by an exception", {{"task", entry->name}, {"what", what}});
        forget(entry);
      }));
}

// cancel() from outside the loop only queues the signal of each task (co_spawn dispatches it): for one that
// ends before its turn comes, the entry must live until then.
void Scope::forget(std::list<Entry>::iterator entry) {
  std::list<Entry> ended;
  ended.splice(ended.end(), running_, entry);
  if (cancelled_) asio::post(executor_, [ended = std::move(ended)] {});
  if (running_.empty()) idle_.notify_all();
}

void Scope::cancel() {
  cancelled_ = true;
  // A task may end inside emit() and erase its entry, so walk with the next position in hand.
  for (auto it = running_.begin(); it != running_.end();) {
    auto here = it++;
    here->signal.emit(asio::cancellation_type::all);
  }
}

Task<> Scope::join() {
  while (!running_.empty()) co_await idle_.wait();
}

}  // namespace atl::async
