// SPDX-License-Identifier: Apache-2.0
//
// A whole HTTP/1 connection of the server: heads, bodies, pipelining. The first byte says how the bytes are
// cut. Beyond "no crash": what a handler sees keeps the promises of RequestHead.
#include "base/check.h"
#include "base/log.h"
#include "http/server.h"
#include "http/syntax.h"
#include "support/memory_stream.h"

namespace {

using namespace atl;

void check_promises(const http::RequestHead& head) {
  CHECK(http::is_token(head.method), "method '{}'", head.method);
  CHECK(head.version == 10 || head.version == 11, "version {}", head.version);
  CHECK(head.authority.empty() || http::is_authority(head.authority), "authority '{}'", head.authority);
  CHECK(!head.authority.empty() || head.version == 10, "no authority in HTTP/1.1");
  bool connect = head.method == "CONNECT";
  CHECK(connect || head.target == "*" || http::is_origin_form(head.target), "target '{}'", head.target);
  CHECK(http::check_headers(head.headers).ok(), "a header that could not be sent on");
  bool chunked = head.headers.find("transfer-encoding").has_value();
  CHECK(!chunked || !head.content_length, "both lengths");
  CHECK(head.headers.count("content-length") <= 1 && head.headers.count("host") == 0, "doubled framing");
  CHECK(head.has_body == (chunked || head.content_length.value_or(0) > 0), "has_body is wrong");
}

http::Task<> handle(http::Exchange& exchange) {
  check_promises(exchange.request());
  auto body = co_await exchange.read_all(16 * 1024);
  if (body.ok() && exchange.request().content_length) {
    CHECK(body->size() == *exchange.request().content_length, "body of another length");
  }
  http::ResponseHead head{.status = body.ok() ? 200 : http_status(body.error().code())};
  auto text = std::move(body).value_or("");
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  static const http::Handler kHandler = handle;
  static const http::ServerLimits kLimits{.head_bytes = 2048, .header_count = 16, .target_bytes = 512};
  log::set_level(log::Level::kError);
  async::asio::io_context loop(1);
  std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto stream = std::make_unique<test_support::MemoryStream>(std::move(input), data[0] == 0 ? size : data[0]);
  async::asio::co_spawn(loop, http::serve_http1(std::move(stream), "", false, kLimits, kHandler),
                        async::asio::detached);
  loop.run();
  return 0;
}
