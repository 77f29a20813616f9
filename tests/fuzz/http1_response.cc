// SPDX-License-Identifier: Apache-2.0
//
// The client against a hostile peer, such as the guest daemon of a sandbox. The first byte says how the bytes
// are cut and which method was used.
#include <array>

#include "base/check.h"
#include "http/client.h"
#include "http/syntax.h"
#include "support/memory_stream.h"

namespace {

using namespace atl;

struct Source {
  std::string bytes;
  std::size_t step;
};

http::Task<Result<net::StreamPtr>> connect(const Source& source) {
  co_return net::StreamPtr(std::make_unique<test_support::MemoryStream>(source.bytes, source.step));
}

http::Task<> fetch_twice(std::shared_ptr<http::Client> client, std::string method) {
  for (int i = 0; i < 2; ++i) {
    http::RequestHead request{.method = method, .target = "/", .authority = "x"};
    if (method == "CONNECT") request.target = "x:1";
    auto answer = co_await http::fetch(client, std::move(request), "", 16 * 1024);
    if (!answer.ok()) continue;
    CHECK(answer->head.status >= 101 && answer->head.status <= 599, "status {}", answer->head.status);
    CHECK(http::check_headers(answer->head.headers).ok(), "a header that could not be sent on");
    CHECK(answer->body.size() <= 16 * 1024, "more than was asked for");
    CHECK(method != "HEAD" || answer->body.empty(), "a body after HEAD");
  }
  client->close_idle();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr std::array<const char*, 4> kMethods{"GET", "HEAD", "POST", "CONNECT"};
  std::size_t step = data[0] >> 2;
  Source source{std::string(reinterpret_cast<const char*>(data) + 1, size - 1), step == 0 ? size : step};
  async::asio::io_context loop(1);
  http::ClientLimits limits{.head_bytes = 2048, .header_count = 16};
  auto client = http::make_client([&source] { return connect(source); }, limits);
  async::asio::co_spawn(loop, fetch_twice(client, kMethods[data[0] & 3]), async::asio::detached);
  client.reset();
  loop.run();
  return 0;
}
