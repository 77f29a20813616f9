// SPDX-License-Identifier: Apache-2.0
#include "store/database.h"

#include <pthread.h>

#include "base/log.h"

namespace atl::store {

Result<std::unique_ptr<Database>> Database::open(const std::string& path,
                                                 const std::vector<Migration>& steps) {
  TRY(auto connection, Connection::open(path));
  TRY_VOID(migrate(*connection, steps));
  return std::unique_ptr<Database>(new Database(std::move(connection)));
}

Database::Database(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "store");
    serve();
  });
}

Database::~Database() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Database::Counters Database::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

void Database::enqueue(std::unique_ptr<Item> item) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  wake_.notify_one();
}

void Database::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::vector<std::unique_ptr<Item>> batch;
    while (!queue_.empty() && batch.size() < kMaxBatch) {
      batch.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    counters_.jobs += batch.size();
    counters_.commits += 1;
    lock.unlock();
    run_batch(std::move(batch));
    lock.lock();
  }
}

void Database::run_batch(std::vector<std::unique_ptr<Item>> batch) {
  enum class Fate { kNotRun, kFailed, kDone };
  std::vector<Fate> fates(batch.size(), Fate::kNotRun);
  Result<void> outcome = broken_ ? Result<void>(Error(*broken_)) : connection_->exec("BEGIN IMMEDIATE");
  for (std::size_t i = 0; outcome.ok() && i < batch.size(); ++i) {
    outcome = connection_->exec("SAVEPOINT job");
    if (!outcome) break;
    fates[i] = batch[i]->work(*connection_).ok() ? Fate::kDone : Fate::kFailed;
    outcome = end_savepoint(fates[i] == Fate::kDone);
  }
  if (outcome.ok()) outcome = connection_->exec("COMMIT");
  if (!outcome.ok() && connection_->in_transaction()) (void)connection_->exec("ROLLBACK");
  if (!outcome.ok() && !broken_ && outcome.error().word() == "store_io") {
    broken_ = Error(outcome.error()).with_hint("restart the program after the disk is repaired");
    log::error("the store stopped after an I/O error", {{"what", outcome.error().message()}});
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    // A job that failed by itself keeps its own answer.
    bool undone = !outcome.ok() && fates[i] != Fate::kFailed;
    batch[i]->finish(undone ? &outcome.error() : nullptr);
  }
}

Result<void> Database::end_savepoint(bool keep) {
  // SQLite ends the whole transaction by itself on some errors, a full disk for one
  // (sqlite.org/lang_transaction.html).
  if (!connection_->in_transaction()) {
    return make_error(Code::kNoSpace, "store: the transaction was rolled back because a write failed")
        .with_word("disk_full")
        .with_hint("free space in the data directory");
  }
  if (!keep) TRY_VOID(connection_->exec("ROLLBACK TO job"));
  return connection_->exec("RELEASE job");
}

}  // namespace atl::store
