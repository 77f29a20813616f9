// SPDX-License-Identifier: Apache-2.0
//
// Workers: threads for system calls that may block. Unlike async::BlockingPool they are made on demand and
// end when idle, because an idle sandbox must cost next to nothing.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "async/task.h"

namespace atl::guest {

using async::Task;

// Thread safe.
class Workers {
 public:
  explicit Workers(std::size_t threads) : limit_(threads) {}
  ~Workers();  // waits for the work that runs; what is queued is dropped
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `work` on a thread and returns its value on the caller's loop. `work` must not throw and must own
  // what it touches, or the caller must outlive it: cancelling the caller does not stop it.
  template <class Work>
  Task<std::invoke_result_t<Work>> run(Work work) {
    using Value = std::invoke_result_t<Work>;
    // The caller's loop must not run out of work while the answer is on its way.
    auto home = async::asio::prefer(co_await async::asio::this_coro::executor,
                                    async::asio::execution::outstanding_work.tracked);
    auto start = [this, home, work = std::move(work)](auto handler) mutable {
      auto job = [home, work = std::move(work), handler = std::move(handler)]() mutable {
        auto answer = [handler = std::move(handler), value = work()]() mutable {
          std::move(handler)(std::move(value));
        };
        async::asio::post(home, std::move(answer));
      };
      submit(std::make_unique<JobOf<decltype(job)>>(std::move(job)));
    };
    co_return co_await async::asio::async_initiate<const async::asio::use_awaitable_t<>, void(Value)>(
        std::move(start), async::asio::use_awaitable);
  }

  std::size_t threads() const;

 private:
  struct Job {
    virtual ~Job() = default;
    virtual void run() = 0;
  };
  template <class Function>
  struct JobOf final : Job {
    explicit JobOf(Function f) : function(std::move(f)) {}
    void run() override { function(); }
    Function function;
  };

  void submit(std::unique_ptr<Job> job);
  bool start_thread_locked();
  void work();
  static void* thread_main(void* self);

  const std::size_t limit_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::deque<std::unique_ptr<Job>> jobs_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace atl::guest
