// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "async/blocking_pool.h"
#include "async/event.h"
#include "async/scope.h"
#include "async/task.h"

namespace atl::async {
namespace {

Task<> wait_for(Event& event, int& woken) {
  co_await event.wait();
  ++woken;
}

Task<> finish(Scope& scope, Event& event) {
  co_await yield();
  event.notify_all();
  co_await scope.join();
}

TEST(Scope, JoinsTasksThatWaitForAnEvent) {
  asio::io_context loop;
  Scope scope(loop.get_executor());
  Event event(loop.get_executor());
  int woken = 0;
  scope.spawn("a", wait_for(event, woken));
  scope.spawn("b", wait_for(event, woken));
  asio::co_spawn(loop, finish(scope, event), asio::detached);
  loop.run();
  EXPECT_EQ(woken, 2);
}

TEST(Scope, CancelEndsASleepingTask) {
  asio::io_context loop;
  Scope scope(loop.get_executor());
  scope.spawn("sleeper", sleep_for(std::chrono::hours(1)));
  asio::post(loop, [&scope] { scope.cancel(); });
  loop.run();
  EXPECT_EQ(scope.size(), 0u);
}

Task<> run_elsewhere(BlockingPool& pool, std::thread::id& worker, std::thread::id& after) {
  auto work = [] { return std::this_thread::get_id(); };
  worker = co_await pool.run(work);
  after = std::this_thread::get_id();
}

TEST(BlockingPool, RunsOffTheLoopAndReturnsToIt) {
  asio::io_context loop;
  BlockingPool pool(1);
  std::thread::id worker, after;
  asio::co_spawn(loop, run_elsewhere(pool, worker, after), asio::detached);
  loop.run();
  EXPECT_NE(worker, after);
  EXPECT_EQ(after, std::this_thread::get_id());
}

}  // namespace
}  // namespace atl::async
