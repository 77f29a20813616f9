// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/answer_body.h"

#include <brotli/encode.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "gateway/upstream/world_for_test.h"

namespace atl::gateway {
namespace {

using namespace testing;

std::string deflated(std::string_view text, int window_bits) {
  z_stream z{};
  deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string encoded(const std::string& coding, const std::string& text) {
  if (coding == "gzip") return deflated(text, 15 + 16);
  if (coding == "deflate") return deflated(text, 15);
  if (coding == "raw") return deflated(text, -15);
  if (coding == "zstd") {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
  }
  std::string out(BrotliEncoderMaxCompressedSize(text.size()) + 64, '\0');
  auto size = out.size();
  BrotliEncoderCompress(5, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_TEXT, text.size(),
                        reinterpret_cast<const std::uint8_t*>(text.data()), &size,
                        reinterpret_cast<std::uint8_t*>(out.data()));
  out.resize(size);
  return out;
}

// An exchange whose body comes in pieces of one size.
struct FakeExchange final : http::ClientExchange {
  std::string body;
  std::size_t step = 1;
  std::size_t at = 0;
  Task<Result<void>> write_body(std::string_view) override { co_return success(); }
  Task<Result<void>> finish_body() override { co_return success(); }
  Task<Result<http::ResponseHead>> read_head() override { co_return http::ResponseHead(); }
  Task<Result<std::size_t>> read_body(std::span<char> out) override {
    auto count = std::min({step, out.size(), body.size() - at});
    std::memcpy(out.data(), body.data() + at, count);
    at += count;
    co_return count;
  }
  Task<Result<void>> wait_body() override { co_return success(); }
  net::StreamPtr take_stream() override { return nullptr; }
  void close() override {}
  void set_idle_limit(Steady::duration) override {}
  std::string peer() const override { return ""; }
};

std::shared_ptr<const SecretPatterns> one_secret() {
  std::vector<SecretPatterns::Pattern> list;
  list.push_back({Secret("sk-very-secret-key"), "PLACEHOLDER"});
  return std::make_shared<SecretPatterns>(list);
}

Task<> read_whole(http::ClientExchange& exchange, std::string coding, Result<std::string>& out) {
  auto body = AnswerBody::make(exchange, coding, one_secret());
  if (!body.ok()) {
    out = std::move(body).error();
    co_return;
  }
  std::string text, buffer(1000, '\0');
  for (;;) {
    auto count = co_await body->read(buffer);
    if (!count.ok()) {
      out = std::move(count).error();
      co_return;
    }
    if (*count == 0) break;
    text.append(buffer, 0, *count);
  }
  out = std::move(text);
}

Result<std::string> read_as(const std::string& coding, std::string bytes, std::size_t step) {
  FakeExchange exchange;
  exchange.body = std::move(bytes);
  exchange.step = step;
  Result<std::string> out(std::string("the task did not end"));
  asio::io_context loop;
  asio::co_spawn(loop, read_whole(exchange, coding, out), asio::detached);
  loop.run();
  return out;
}

std::string long_text(std::string_view key) {
  std::string out;
  for (int i = 0; i < 3000; ++i) out += fmt::format("line {} {}\n", i * 7919 % 1000, i % 500 == 0 ? key : "");
  return out;
}

// Reports 16 and 72: one decoder for the whole body, however it is cut; and nothing hides in it.
TEST(AnswerBody, SecretsAreFoundInEveryCodingHoweverItIsCut) {
  auto text = long_text("sk-very-secret-key"), wanted = long_text("PLACEHOLDER");
  for (std::string coding : {"gzip", "deflate", "br", "zstd", "identity"}) {
    auto bytes = coding == "identity" ? text : encoded(coding, text);
    for (std::size_t step : {1u, 7u, 4096u, 1'000'000u}) {
      auto got = read_as(coding, bytes, step);
      ASSERT_TRUE(got.ok()) << coding << " " << step << " " << got.error().message();
      EXPECT_EQ(*got, wanted) << coding << " " << step;
    }
  }
  EXPECT_EQ(*read_as("deflate", encoded("raw", text), 100), wanted);
  EXPECT_EQ(*read_as("gzip", encoded("gzip", text) + encoded("gzip", "more"), 100), wanted + "more");
}

// Reports 16 and 28: what is cut off is never a good, short answer.
TEST(AnswerBody, ABodyThatIsCutOffIsAnError) {
  auto text = long_text("x");
  for (std::string coding : {"gzip", "deflate", "br", "zstd"}) {
    auto bytes = encoded(coding, text);
    auto got = read_as(coding, bytes.substr(0, bytes.size() / 2), 100);
    EXPECT_FALSE(got.ok()) << coding;
    EXPECT_FALSE(read_as(coding, "this is not encoded at all, although it says so", 100).ok()) << coding;
    EXPECT_FALSE(read_as(coding, bytes + "rest", 100).ok()) << coding;
    EXPECT_TRUE(read_as(coding, "", 100).ok()) << coding;
  }
}

TEST(AnswerBody, CodingsThatCannotBeUndoneAreRefused) {
  for (auto coding : {"compress", "gzip, br", "aes128gcm", "dcb"}) {
    EXPECT_EQ(read_as(coding, "x", 1).error().code(), Code::kUnsupported) << coding;
  }
}

TEST(AnswerBody, ABombUnpacksStepByStep) {
  // A hundred million zeros in a few bytes: read in bounded memory, step by step.
  FakeExchange exchange;
  exchange.body = encoded("gzip", std::string(100'000'000, '\0'));
  exchange.step = 1'000'000;
  auto body = AnswerBody::make(exchange, "gzip", nullptr);
  ASSERT_TRUE(body.ok());
  asio::io_context loop;
  std::size_t total = 0;
  auto run = [](AnswerBody& b, std::size_t& sum) -> Task<> {
    std::string buffer(1 << 20, '\0');
    for (;;) {
      auto count = co_await b.read(buffer);
      EXPECT_TRUE(count.ok());
      EXPECT_LE(*count, 64u * 1024);
      if (*count == 0) co_return;
      sum += *count;
    }
  };
  asio::co_spawn(loop, run(*body, total), asio::detached);
  loop.run();
  EXPECT_EQ(total, 100'000'000u);
}

// A proxy made of pass_answer(), in front of the server on `port`.
http::Handler proxy_to(World& world, std::uint16_t port) {
  return [&world, port](http::Exchange& exchange) -> Task<> {
    auto route = world.route(port);
    route.tls = false;
    auto asked = co_await world.upstream.start(std::move(route), request(exchange.request().method));
    auto head = co_await (*asked)->read_head();
    auto body = AnswerBody::make(**asked, "", one_secret());
    head->headers.remove("content-length");
    auto trailers = [&asked] { return (*asked)->trailers(); };
    (void)co_await pass_answer(*body, std::move(*head), exchange, trailers);
  };
}

// Report 15: what has changed has its own length, or none.
TEST(AnswerBody, AnAnswerThatIsWholeGetsItsOwnLength) {
  World world;
  http::Handler handler = [](http::Exchange& exchange) -> Task<> {
    http::ResponseHead head;
    (void)co_await exchange.respond(std::move(head), "key sk-very-secret-key!");
  };
  TestServer server(world.scope, world.loop.get_executor(), TestServer::Kind::kPlain, handler);
  TestServer front(world.scope, world.loop.get_executor(), TestServer::Kind::kPlain,
                   proxy_to(world, server.port));
  world.run([&](World& w) -> Task<> {
    auto route = w.route(front.port, "the client");
    route.tls = false;
    auto whole = co_await ask(w.upstream, route, request());
    EXPECT_TRUE(whole.ok());
    EXPECT_EQ(whole->body, "key PLACEHOLDER!");
    EXPECT_EQ(whole->head.headers.find("content-length"), "16");
    auto head = co_await ask(w.upstream, route, request("HEAD"));
    EXPECT_TRUE(head.ok());
    EXPECT_FALSE(head->head.headers.find("content-length"));
  });
}

// Events of a stream arrive one by one: the peer sends the next only when the last has been read behind the
// proxy.
TEST(AnswerBody, EventsPassAsTheyCome) {
  World world;
  async::Event read(world.loop.get_executor());
  int sent = 0, seen = 0;
  http::Handler handler = [&](http::Exchange& exchange) -> Task<> {
    http::ResponseHead head;
    head.headers.add("content-type", "text/event-stream");
    (void)co_await exchange.send_head(std::move(head));
    for (; sent < 20; ++sent) {
      while (seen < sent) co_await read.wait();
      auto event = fmt::format("event: e\ndata: {} sk-very\n\n", sent);
      (void)co_await exchange.write(event);
    }
    (void)co_await exchange.finish();
  };
  TestServer server(world.scope, world.loop.get_executor(), TestServer::Kind::kPlain, handler);
  TestServer front(world.scope, world.loop.get_executor(), TestServer::Kind::kTls,
                   proxy_to(world, server.port));
  world.run([&](World& w) -> Task<> {
    auto exchange = co_await w.upstream.start(w.route(front.port, "the client"), request());
    EXPECT_TRUE((co_await (*exchange)->read_head()).ok());
    std::string text, buffer(1000, '\0');
    for (;;) {
      auto count = co_await (*exchange)->read_body(buffer);
      if (!count.ok() || *count == 0) break;
      text.append(buffer, 0, *count);
      if (text.ends_with("\n\n")) ++seen;
      read.notify_all();
    }
    EXPECT_EQ(seen, 20);
  });
}

TEST(AnswerBody, CodingsInSeveralFieldsAreOneList) {
  http::Headers headers{{"content-encoding", "identity"}, {"x", "y"}, {"content-encoding", "gzip"}};
  EXPECT_EQ(content_coding(headers), "identity, gzip");
  EXPECT_EQ(make_decoder(content_coding(headers)).error().code(), Code::kUnsupported);
  EXPECT_EQ(content_coding({{"content-encoding", "gzip"}}), "gzip");
  EXPECT_EQ(content_coding({}), "");
}

}  // namespace
}  // namespace atl::gateway
