// SPDX-License-Identifier: Apache-2.0
//
// BlockingPool: runs system calls that may block on a bounded number of threads, off the event loop.
#pragma once

#include <optional>
#include <type_traits>

#include "async/task.h"

namespace atl::async {

class BlockingPool {
 public:
  explicit BlockingPool(std::size_t threads) : pool_(threads) {}
  ~BlockingPool() { pool_.join(); }

  // Runs `work` on a thread of the pool and returns its value on the caller's loop. `work` must not throw and
  // must own what it touches: cancelling the caller does not stop it.
  template <class Work>
  Task<std::invoke_result_t<Work>> run(Work work) {
    using Value = std::invoke_result_t<Work>;
    // The caller's loop must not run out of work while the answer is on its way.
    auto home = asio::prefer(co_await asio::this_coro::executor, asio::execution::outstanding_work.tracked);
    auto start = [this, home, work = std::move(work)](auto handler) mutable {
      asio::post(pool_, [home, work = std::move(work), handler = std::move(handler)]() mutable {
        if constexpr (std::is_void_v<Value>) {
          work();
          asio::post(home, std::move(handler));
        } else {
          auto answer = [handler = std::move(handler), value = work()]() mutable {
            std::move(handler)(std::move(value));
          };
          asio::post(home, std::move(answer));
        }
      });
    };
    if constexpr (std::is_void_v<Value>) {
      co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(std::move(start),
                                                                           asio::use_awaitable);
    } else {
      co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(Value)>(
          std::move(start), asio::use_awaitable);
    }
  }

 private:
  asio::thread_pool pool_;
};

}  // namespace atl::async
