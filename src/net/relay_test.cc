// SPDX-License-Identifier: Apache-2.0
#include "net/relay.h"

#include <gtest/gtest.h>

#include <list>

#include "net/tcp.h"

namespace atl::net {
namespace {

TEST(RelayBuffer, GrowsOnlyWhileItIsFilled) {
  RelayBuffer buffer;
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
  buffer.passed_on(RelayBuffer::kFirst - 1);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
  for (int i = 0; i < 5; ++i) buffer.passed_on(buffer.space().size());
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kLargest);
}

TEST(RelayBuffer, ShrinksWhenLittleComes) {
  RelayBuffer buffer;
  for (int i = 0; i < 5; ++i) buffer.passed_on(buffer.space().size());
  EXPECT_TRUE(buffer.filled());
  buffer.passed_on(buffer.space().size() / 2);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kLargest);
  EXPECT_FALSE(buffer.filled());
  for (int i = 0; i < 5; ++i) buffer.passed_on(100);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
}

TEST(RelayBuffer, HoldsNothingOnceReleased) {
  RelayBuffer buffer;
  buffer.space()[0] = 'x';
  EXPECT_NE(buffer.view(1).data(), nullptr);
  buffer.release();
  EXPECT_EQ(buffer.view(0).data(), nullptr);
  EXPECT_EQ(buffer.space().size(), RelayBuffer::kFirst);
}

TEST(RelayBuffer, StaysSmallWhereItsUserHasNoRoom) {
  FairShare memory(1 << 30, RelayBuffer::kLargest);
  RelayBuffer first(memory.of("a")), second(memory.of("a")), other(memory.of("b"));
  for (RelayBuffer* buffer : {&first, &second, &other}) {
    for (int i = 0; i < 5; ++i) buffer->passed_on(buffer->space().size());
  }
  EXPECT_EQ(first.space().size(), RelayBuffer::kLargest);
  EXPECT_EQ(second.space().size(), RelayBuffer::kFirst);
  EXPECT_EQ(other.space().size(), RelayBuffer::kLargest);
  first.release();
  EXPECT_EQ(memory.used(), RelayBuffer::kLargest - RelayBuffer::kFirst);
  for (int i = 0; i < 5; ++i) second.passed_on(second.space().size());
  EXPECT_EQ(second.space().size(), RelayBuffer::kLargest);
  EXPECT_EQ(first.space().size(), RelayBuffer::kFirst);
}

// Relays on one loop between two ends that a test holds.
struct Relays {
  struct Ends {
    StreamPtr source, near, far, sink;
  };
  async::asio::io_context loop;
  std::list<Ends> all;

  Ends& add(const FairShare::User& memory) {
    Ends ends;
    std::tie(ends.source, ends.near) = stream_pair(loop.get_executor());
    std::tie(ends.far, ends.sink) = stream_pair(loop.get_executor());
    all.push_back(std::move(ends));
    async::asio::co_spawn(loop, relay(*all.back().near, *all.back().far, memory), async::asio::detached);
    return all.back();
  }
  static Task<> write(Stream& to, std::size_t count) {
    (void)co_await to.write_all(std::string(count, 'x'));
    (void)co_await to.shutdown_write();
  }
  static Task<> read(Stream& from, std::size_t& count) {
    std::string buffer(64 * 1024, '\0');
    while (true) {
      auto got = co_await from.read_some(buffer);
      if (!got.ok() || *got == 0) break;
      count += *got;
    }
  }
  void send(Ends& ends, std::size_t count) {
    async::asio::co_spawn(loop, write(*ends.source, count), async::asio::detached);
  }
  // Until everybody waits for somebody else.
  void settle() {
    while (loop.poll() > 0) {}
  }
};

TEST(Relay, WhatNobodyReadsStaysInTheShareOfItsUser) {
  constexpr std::size_t kMost = 1 << 20, kBody = 1 << 20;
  FairShare memory(64 << 20, kMost);
  Relays relays;
  for (int i = 0; i < 40; ++i) relays.send(relays.add(memory.of("greedy")), kBody);
  relays.settle();
  EXPECT_LE(memory.used(), kMost);
  EXPECT_GT(memory.used(), kMost / 2);

  std::size_t count = 0;
  Relays::Ends& other = relays.add(memory.of("other"));
  relays.send(other, kBody);
  async::asio::co_spawn(relays.loop, Relays::read(*other.sink, count), async::asio::detached);
  relays.settle();
  EXPECT_EQ(count, kBody);

  // Once somebody reads, all comes, though in small steps for some.
  std::size_t late = 0;
  for (Relays::Ends& ends : relays.all) {
    if (&ends != &other)
      async::asio::co_spawn(relays.loop, Relays::read(*ends.sink, late), async::asio::detached);
  }
  relays.settle();
  EXPECT_EQ(late, 40 * kBody);
  EXPECT_LE(memory.used(), kMost);
  for (Relays::Ends& ends : relays.all) ends.sink->close();
  relays.settle();
  EXPECT_EQ(memory.used(), 0u);
}

}  // namespace
}  // namespace atl::net
