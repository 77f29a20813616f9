// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include "base/text.h"

namespace atl::http {
namespace {
constexpr std::size_t kReadStep = 16 * 1024;
}

std::string error_body(int status, std::string_view message) {
  return fmt::format(R"({{"code":{},"message":{}}})", status, json_quote(message));
}

Task<Result<std::string>> Exchange::read_all(std::size_t limit) {
  if (request_.content_length.value_or(0) > limit) {
    co_return make_error(Code::kTooLarge, "request body of {} bytes; at most {} are accepted here",
                         *request_.content_length, limit);
  }
  std::string out;
  std::size_t used = 0;
  for (;;) {
    // One byte more than the limit, so that a body of exactly the limit is told from a longer one.
    auto step = std::min(kReadStep, limit + 1 - used);
    if (request_.content_length)
      step = std::min(step, static_cast<std::size_t>(*request_.content_length) - used + 1);
    out.resize(used + step);
    CO_TRY(std::size_t count, co_await read_body(std::span(out.data() + used, step)));
    used += count;
    if (count == 0) break;
    if (used > limit)
      co_return make_error(Code::kTooLarge, "request body larger than the {} bytes accepted here", limit);
  }
  out.resize(used);
  co_return out;
}

Task<Result<void>> Exchange::send_head_and(ResponseHead head, std::string_view first) {
  CO_TRY_VOID(co_await send_head(std::move(head)));
  if (!first.empty()) CO_TRY_VOID(co_await write(first));
  co_return success();
}

Task<Result<void>> Exchange::respond(ResponseHead head, std::string body) {
  bool bodiless = head.status < 200 || head.status == 204 || head.status == 304;
  if (!bodiless && !head.headers.find("content-length")) {
    head.headers.add("content-length", std::to_string(body.size()));
  }
  if (bodiless) body.clear();
  CO_TRY_VOID(co_await send_head_and(std::move(head), body));
  co_return co_await finish();
}

}  // namespace atl::http
