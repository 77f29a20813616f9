// SPDX-License-Identifier: Apache-2.0
//
// What an upstream says over HTTP/2 to three requests of ours. The first byte says how the bytes are cut.
#include "base/check.h"
#include "base/log.h"
#include "http/h2/client.h"
#include "http/syntax.h"
#include "support/memory_stream.h"

namespace {

using namespace atl;

http::Task<> ask(std::shared_ptr<http::H2Client> client, std::string method) {
  http::RequestHead request;
  request.method = std::move(method);
  request.target = "/";
  request.authority = "x.example";
  request.has_body = request.method == "POST";
  auto exchange = co_await client->start(request);
  if (!exchange.ok()) co_return;
  (*exchange)->set_idle_limit(std::chrono::milliseconds(1));
  if (request.has_body) {
    (void)co_await (*exchange)->write_body("body");
    (void)co_await (*exchange)->finish_body();
  }
  auto head = co_await (*exchange)->read_head();
  if (!head.ok()) co_return;
  CHECK(head->status >= 200 && head->status <= 599, "a status that is none");
  CHECK(http::check_headers(head->headers).ok(), "a header that could not be sent on");
  (void)co_await (*exchange)->read_all(16 * 1024);
  CHECK(http::check_headers((*exchange)->trailers()).ok(), "a trailer that could not be sent on");
}

http::Task<> run(async::Executor executor, net::StreamPtr stream) {
  async::Scope scope(executor);
  http::H2ClientLimits limits{.head_bytes = 2048, .header_count = 16};
  auto client = http::make_h2_client(scope, executor, std::move(stream), limits);
  CHECK(client.ok(), "no client");
  async::Scope asking(executor);
  for (auto method : {"GET", "POST", "HEAD"}) asking.spawn("ask", ask(*client, method));
  co_await asking.join();
  (*client)->close_idle();
  co_await scope.join();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  log::set_level(log::Level::kError);
  std::string input("\0\0\0\4\0\0\0\0\0", 9);
  input.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  async::asio::io_context loop(1);
  auto stream =
      std::make_unique<test_support::MemoryStream>(std::move(input), data[0] == 0 ? size + 64 : data[0]);
  async::asio::co_spawn(loop, run(loop.get_executor(), std::move(stream)), async::asio::detached);
  loop.run();
  return 0;
}
