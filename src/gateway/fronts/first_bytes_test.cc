// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/first_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/tcp.h"
#include "support/memory_stream.h"

namespace atl::gateway {
namespace {

using policy::Stream;

async::Task<> keep(net::Stream& stream, std::optional<Result<FirstBytes>>& out) {
  out = co_await read_first_bytes(stream);
}

FirstBytes read(net::Stream& stream, async::asio::io_context& loop) {
  std::optional<Result<FirstBytes>> out;
  async::asio::co_spawn(loop, keep(stream, out), async::asio::detached);
  while (!out && loop.run_one_for(std::chrono::seconds(20)) > 0) continue;
  return out && out->ok() ? std::move(**out) : FirstBytes{};
}

// The bytes, then the end, in pieces of `step`.
FirstBytes read(const std::string& bytes, std::size_t step) {
  async::asio::io_context loop;
  test_support::MemoryStream stream(bytes, step);
  return read(stream, loop);
}

TEST(FirstBytes, HttpIsAWholeRequestLine) {
  for (std::size_t step : {1u, 3u, 1000u}) {
    EXPECT_EQ(read("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", step).kind, Stream::kHttp) << step;
    EXPECT_EQ(read("CONNECT a:1 HTTP/1.1\r\n", step).kind, Stream::kHttp) << step;
    EXPECT_EQ(read("\r\n\r\nGET / HTTP/1.1\r\n", step).kind, Stream::kHttp) << step;
    EXPECT_EQ(read("M-SEARCH * HTTP/1.1\r\n", step).kind, Stream::kHttp) << step;
    EXPECT_EQ(read("get / HTTP/1.1\r\n", step).kind, Stream::kHttp) << step;
    EXPECT_EQ(read("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", step).kind, Stream::kHttp) << step;
  }
}

TEST(FirstBytes, OtherTextProtocolsAreNotHttp) {
  for (const char* bytes : {"SSH-2.0-OpenSSH_9.2 Debian\r\n", "GET key\r\n", "EHLO x\r\n",
                            "HTTP/1.1 200 OK\r\n", "*1\r\n$4\r\nPING\r\n", "GET \n"}) {
    FirstBytes first = read(bytes, 7);
    EXPECT_EQ(first.kind, Stream::kOther) << bytes;
    EXPECT_TRUE(first.broken.empty());
    EXPECT_TRUE(std::string(bytes).starts_with(first.bytes));
  }
}

TEST(FirstBytes, RequestLineThatDoesNotEndIsBroken) {
  for (const std::string& bytes : {"GET /" + std::string(kMaxRequestLine, 'a'), std::string("G"),
                                   std::string("\r\n"), std::string("GET / HTTP/1.1")}) {
    FirstBytes first = read(bytes, 4096);
    EXPECT_EQ(first.kind, Stream::kHttp) << bytes.substr(0, 20);
    EXPECT_FALSE(first.broken.empty()) << bytes.substr(0, 20);
  }
}

TEST(FirstBytes, TlsThatStopsIsBroken) {
  FirstBytes first = read(std::string("\x16\x03\x01\x00\xf0\x01", 6), 2);
  EXPECT_EQ(first.kind, Stream::kTls);
  EXPECT_FALSE(first.broken.empty());
}

TEST(FirstBytes, SilenceIsOtherAndTheStreamGoesOn) {
  async::asio::io_context loop;
  auto [client, server] = net::stream_pair(loop.get_executor());
  FirstBytes first = read(*server, loop);
  EXPECT_EQ(first.kind, Stream::kOther);
  EXPECT_TRUE(first.bytes.empty());
  EXPECT_FALSE(first.ended);
}

TEST(FirstBytes, AnEndIsTold) {
  FirstBytes first = read("", 1);
  EXPECT_TRUE(first.ended);
  EXPECT_TRUE(first.bytes.empty());
}

}  // namespace
}  // namespace atl::gateway
