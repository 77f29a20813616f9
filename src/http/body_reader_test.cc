// SPDX-License-Identifier: Apache-2.0
#include "http/body_reader.h"

#include <gtest/gtest.h>

#include "net/tcp.h"

namespace atl::http {
namespace {

namespace asio = async::asio;

// What is between two chunks is no data: whoever waits for more would hold back what it has.
TEST(BodyReader, KnowsWhetherMoreOfTheBodyIsHere) {
  for (const char* piece : {"", "\r\n", "\r\n2", "\r\n2\r\n"}) {
    BodyReader reader(Framing::kChunked, 0);
    InputBuffer buffer(std::string("1\r\na") + piece);
    EXPECT_TRUE(reader.waiting(buffer));
    asio::io_context loop;
    auto [a, b] = net::stream_pair(loop.get_executor());
    auto read = [](BodyReader& r, net::Stream& s, InputBuffer& i) -> Task<> {
      char out[8];
      EXPECT_EQ(*co_await r.read(s, i, out), 1u);
    };
    asio::co_spawn(loop, read(reader, *a, buffer), asio::detached);
    loop.run();
    EXPECT_FALSE(reader.waiting(buffer)) << piece;
    buffer.append(std::string_view("\r\n2\r\nbc").substr(std::string_view(piece).size()));
    EXPECT_TRUE(reader.waiting(buffer));
  }
}

// Between two events of a stream nothing is held, not even for the framing that has come already.
TEST(BodyReader, WaitsForMoreOfTheBodyWithoutMemory) {
  for (const char* piece : {"", "\r\n", "\r\n2", "\r\n2\r\n"}) {
    BodyReader reader(Framing::kChunked, 0);
    InputBuffer buffer(std::string("1\r\na") + piece);
    asio::io_context loop;
    auto [a, b] = net::stream_pair(loop.get_executor());
    int steps = 0;
    auto read = [](BodyReader& r, net::Stream& s, InputBuffer& i, int& done) -> Task<> {
      char out[8];
      EXPECT_TRUE((co_await r.wait(s, i)).ok());
      EXPECT_EQ(*co_await r.read(s, i, out), 1u);
      done = 1;
      EXPECT_TRUE((co_await r.wait(s, i)).ok());
      done = 2;
      EXPECT_EQ(*co_await r.read(s, i, out), 2u);
      EXPECT_TRUE((co_await r.wait(s, i)).ok());
      EXPECT_EQ(*co_await r.read(s, i, out), 0u);
      done = 3;
    };
    asio::co_spawn(loop, read(reader, *a, buffer, steps), asio::detached);
    loop.poll();
    EXPECT_EQ(steps, 1) << piece;
    EXPECT_EQ(buffer.data().data(), nullptr) << piece;
    std::string rest(std::string_view("\r\n2\r\nbc\r\n0\r\n\r\n").substr(std::string_view(piece).size()));
    asio::co_spawn(
        loop,
        [](net::Stream& to, std::string text) -> Task<> { (void)co_await to.write_all(text); }(*b, rest),
        asio::detached);
    loop.run();
    EXPECT_EQ(steps, 3) << piece;
  }
}

}  // namespace
}  // namespace atl::http
