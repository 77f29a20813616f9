// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "async/blocking_pool.h"
#include "async/event.h"
#include "async/gate.h"
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

// cancel() from outside the loop, while the end of the task is already on its way.
TEST(Scope, CancelFromOutsideMeetsATaskThatEnds) {
  asio::io_context loop;
  Scope scope(loop.get_executor());
  Event event(loop.get_executor());
  int woken = 0;
  scope.spawn("a", wait_for(event, woken));
  loop.poll();
  event.notify_all();
  scope.cancel();
  loop.restart();
  loop.run();
  EXPECT_EQ(scope.size(), 0u);
}

struct Crossing {
  std::size_t inside = 0, most = 0;
  std::vector<int> order;
};

Task<> cross(Gate& gate, Crossing& crossing, int number) {
  auto pass = co_await gate.enter();
  crossing.order.push_back(number);
  crossing.most = std::max(crossing.most, ++crossing.inside);
  co_await yield();
  co_await yield();
  --crossing.inside;
}

TEST(Gate, LetsAFewThroughInOrder) {
  asio::io_context loop;
  Gate gate(loop.get_executor(), 3);
  Crossing crossing;
  std::vector<int> expected;
  for (int i = 0; i < 20; ++i) {
    expected.push_back(i);
    asio::co_spawn(loop, cross(gate, crossing, i), asio::detached);
  }
  loop.run();
  EXPECT_EQ(crossing.order, expected);
  EXPECT_EQ(crossing.most, 3u);
}

Task<> cross_in(Gate& gate, std::string lane, Crossing& crossing, int number) {
  auto pass = co_await gate.enter(std::move(lane));
  crossing.order.push_back(number);
  co_await yield();
}

// Many of one lane wait; the two of another get every second turn.
TEST(Gate, ServesLanesInTurn) {
  asio::io_context loop;
  Gate gate(loop.get_executor(), 1);
  Crossing crossing;
  for (int i = 0; i < 6; ++i) asio::co_spawn(loop, cross_in(gate, "flood", crossing, i), asio::detached);
  for (int i = 10; i < 12; ++i) asio::co_spawn(loop, cross_in(gate, "calm", crossing, i), asio::detached);
  loop.run();
  EXPECT_EQ(crossing.order, (std::vector<int>{0, 1, 10, 2, 11, 3, 4, 5}));
  EXPECT_EQ(gate.waiting(), 0u);
}

Task<> hold(Gate& gate, Event& until) {
  auto pass = co_await gate.enter();
  co_await until.wait();
}

// One inside, one that waits and is cancelled, one behind it: the last one must still get through.
TEST(Gate, ACancelledWaiterGivesItsTurnAway) {
  asio::io_context loop;
  Gate gate(loop.get_executor(), 1);
  Event release(loop.get_executor());
  Scope cancelled(loop.get_executor());
  Crossing crossing;
  asio::co_spawn(loop, hold(gate, release), asio::detached);
  cancelled.spawn("impatient", cross(gate, crossing, 1));
  asio::co_spawn(loop, cross(gate, crossing, 2), asio::detached);
  while (gate.waiting() < 2) loop.run_one();
  cancelled.cancel();
  asio::post(loop, [&release] { release.notify_all(); });
  loop.run();
  EXPECT_EQ(crossing.order, std::vector<int>{2});
  EXPECT_EQ(gate.waiting(), 0u);
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
