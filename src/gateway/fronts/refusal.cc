// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/refusal.h"

#include "gateway/flow/refusal.h"

namespace atl::gateway {
namespace {

using async::Task;

// What a client may still send before it has read the answer; closing with unread bytes would reset it.
constexpr std::size_t kDrained = 64 * 1024;
constexpr auto kDrainTime = std::chrono::milliseconds(200);

std::string http_text(const HttpRefusal& refusal) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", refusal.head.status, refusal.head.reason());
  for (const http::Header& header : refusal.head.headers) {
    out += fmt::format("{}: {}\r\n", header.name, header.value);
  }
  out += fmt::format("connection: close\r\ncontent-length: {}\r\n\r\n{}", refusal.body.size(), refusal.body);
  return out;
}

std::string alert_text(TlsAlert alert) {
  const char record[] = {21, 3, 3, 0, 2, 2, static_cast<char>(alert)};  // alert record, fatal
  return std::string(record, sizeof record);
}

}  // namespace

Task<> refuse_connection(net::StreamPtr stream, const FirstBytes& first, policy::Refusal refusal,
                         TlsAlert alert) {
  std::string answer;
  if (first.kind == policy::Stream::kHttp) answer = http_text(http_refusal(403, refusal));
  if (first.kind == policy::Stream::kTls) answer = alert_text(alert);
  if (answer.empty()) {
    stream->close(net::Stream::Close::kReset);
    co_return;
  }
  stream->set_idle_limit(kDrainTime);
  auto sent = co_await stream->write_all(answer);
  if (sent) sent = co_await stream->shutdown_write();
  char sink[4096];
  for (std::size_t drained = 0; sent.ok() && drained < kDrained;) {
    auto got = co_await stream->read_some(sink);
    if (!got || *got == 0) break;
    drained += *got;
  }
  stream->close();
}

}  // namespace atl::gateway
