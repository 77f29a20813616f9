// SPDX-License-Identifier: Apache-2.0
//
// Database: the store's one thread and its group commit. Jobs that wait at the same moment share one
// transaction and one fsync; each runs in a savepoint of its own, so that one that fails takes nothing along.
// A job's answer is delivered after the commit: what was answered is on disk (docs/decisions/0030-store.md).
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <type_traits>

#include "async/task.h"
#include "store/schema.h"

namespace atl::store {

using async::Task;
namespace asio = async::asio;

class Database {
 public:
  // Opens or makes the file, checks it, brings its schema to the newest of `steps`. Blocking.
  static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                const std::vector<Migration>& steps = migrations());
  // Ends the thread after all jobs that were queued.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs `job(Connection&) -> Result<T>` on the store's thread and returns its answer on the caller's loop,
  // after the commit. Jobs run in the order of the calls. `job` must own what it touches: cancelling the
  // caller does not stop it.
  template <class Job>
  Task<std::invoke_result_t<Job&, Connection&>> run(Job job) {
    using Answer = std::invoke_result_t<Job&, Connection&>;
    // The caller's loop must not run out of work while the answer is on its way.
    auto home = asio::prefer(co_await asio::this_coro::executor, asio::execution::outstanding_work.tracked);
    auto start = [this, home, job = std::move(job)](auto handler) mutable {
      auto finish = [home, handler = std::move(handler)](Answer answer) mutable {
        asio::post(home, [handler = std::move(handler), answer = std::move(answer)]() mutable {
          std::move(handler)(std::move(answer));
        });
      };
      enqueue(std::make_unique<Pending<Job, decltype(finish)>>(std::move(job), std::move(finish)));
    };
    co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(Answer)>(std::move(start),
                                                                                         asio::use_awaitable);
  }

  // The same, but blocks the calling thread: for start-up and tests.
  template <class Job>
  std::invoke_result_t<Job&, Connection&> run_blocking(Job job) {
    using Answer = std::invoke_result_t<Job&, Connection&>;
    std::promise<Answer> done;
    auto answer = done.get_future();
    auto finish = [&done](Answer value) { done.set_value(std::move(value)); };
    enqueue(std::make_unique<Pending<Job, decltype(finish)>>(std::move(job), std::move(finish)));
    return answer.get();
  }

  struct Counters {
    std::uint64_t jobs = 0;
    std::uint64_t commits = 0;
  };
  Counters counters() const;

 private:
  static constexpr std::size_t kMaxBatch = 256;  // jobs in one transaction

  struct Item {
    virtual ~Item() = default;
    virtual Result<void> work(Connection& connection) = 0;
    virtual void finish(const Error* commit_error) = 0;
  };

  template <class Job, class Finish>
  struct Pending final : Item {
    using Answer = std::invoke_result_t<Job&, Connection&>;
    Pending(Job j, Finish f) : job(std::move(j)), done(std::move(f)) {}
    Result<void> work(Connection& connection) override {
      answer.emplace(job(connection));
      return answer->ok() ? Result<void>() : Result<void>(Error(answer->error()));
    }
    void finish(const Error* commit_error) override {
      if (commit_error) answer.emplace(Error(*commit_error));
      done(std::move(*answer));
    }
    Job job;
    Finish done;
    std::optional<Answer> answer;
  };

  explicit Database(std::unique_ptr<Connection> connection);
  void enqueue(std::unique_ptr<Item> item);
  void serve();
  void run_batch(std::vector<std::unique_ptr<Item>> batch);
  Result<void> end_savepoint(bool keep);

  std::unique_ptr<Connection> connection_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Item>>
      queue_;  // bounded by the requests in flight, each of which waits for its answer
  bool ending_ = false;
  std::optional<Error> broken_;  // a failed fsync: what is on disk is unknown until the file is opened anew
  Counters counters_;
  std::thread thread_;
};

}  // namespace atl::store
