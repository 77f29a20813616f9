// SPDX-License-Identifier: Apache-2.0
//
// A whole HTTP/2 connection of the server after the preface. The first byte says how the bytes are cut.
#include "base/check.h"
#include "base/log.h"
#include "http/h2/server.h"
#include "http/syntax.h"
#include "support/memory_stream.h"

namespace {

using namespace atl;

http::Task<> handle(http::Exchange& exchange) {
  const auto& request = exchange.request();
  CHECK(http::is_token(request.method) && http::is_authority(request.authority), "malformed request");
  CHECK(http::check_headers(request.headers).ok(), "a header that could not be sent on");
  auto body = co_await exchange.read_all(16 * 1024);
  http::ResponseHead head{.status = body.ok() ? 200 : http_status(body.error().code())};
  auto text = std::move(body).value_or("");
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  static const http::Handler kHandler = handle;
  static const http::ServerLimits kLimits{
      .head_bytes = 2048, .header_count = 16, .target_bytes = 512, .h2_streams = 8};
  log::set_level(log::Level::kError);
  std::string input = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9);
  input.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  async::asio::io_context loop(1);
  auto stream =
      std::make_unique<test_support::MemoryStream>(std::move(input), data[0] == 0 ? size + 64 : data[0]);
  async::asio::co_spawn(loop, http::serve_http2(std::move(stream), "", false, kLimits, kHandler),
                        async::asio::detached);
  loop.run();
  return 0;
}
