// SPDX-License-Identifier: Apache-2.0
#include "http/front/front.h"

#include <array>

#include "http/h2/server.h"

namespace atl::http {
namespace {
constexpr char kTlsHandshake = 0x16;  // the content type that opens a TLS connection (RFC 8446 §5.1)
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::size_t kFirstRead = 512;

Task<> answer_tls_only(Exchange& exchange) {
  ResponseHead head{.status = 426};
  head.headers.add("content-type", "application/json");
  head.headers.add("connection", "close");
  (void)co_await exchange.respond(std::move(head), error_body(426, "this port speaks TLS only; use https"));
}

// Reads the first bytes, at least as many as tell the protocols apart. Empty when the peer says nothing.
Task<std::string> first_bytes(net::Stream& stream, Steady::duration limit) {
  auto deadline = Steady::now() + limit;
  std::string out;
  std::array<char, kFirstRead> buffer;
  for (;;) {
    auto left = deadline - Steady::now();
    if (left <= Steady::duration::zero()) co_return "";
    stream.set_idle_limit(left);
    auto count = co_await stream.read_some(buffer);
    if (!count.ok() || *count == 0) co_return out;
    out.append(buffer.data(), *count);
    // Only a beginning of the preface needs more: "PRI" is also how a method could start.
    if (out.size() >= kHttp2Preface.size() || !kHttp2Preface.starts_with(out)) co_return out;
  }
}

// While a connection has not asked for anything, a drain closes it at once.
class CloseOnDrain {
 public:
  CloseOnDrain(Drain* drain, net::Stream* stream) : drain_(drain) {
    if (drain_ != nullptr) drain_->on_request([stream] { stream->close(); });
  }
  CloseOnDrain(const CloseOnDrain&) = delete;
  CloseOnDrain& operator=(const CloseOnDrain&) = delete;
  ~CloseOnDrain() { disarm(); }
  void disarm() {
    if (drain_ != nullptr) drain_->on_request(nullptr);
    drain_ = nullptr;
  }

 private:
  Drain* drain_;
};

Task<> serve_plain(net::StreamPtr stream, std::string first, bool secure, const ServerLimits& limits,
                   const Handler& handler, Drain* drain) {
  if (first.starts_with(kHttp2Preface)) {
    return serve_http2(std::move(stream), std::move(first), secure, limits, handler, drain);
  }
  return serve_http1(std::move(stream), std::move(first), secure, limits, handler, drain);
}
}  // namespace

Task<> serve_connection(net::StreamPtr stream, FrontProtocols protocols, const ServerLimits& limits,
                        const Handler& handler, Drain* drain) {
  CloseOnDrain close_on_drain(drain, stream.get());
  auto first = co_await first_bytes(*stream, limits.head_timeout);
  if (first.empty()) co_return;
  if (first.front() == kTlsHandshake && protocols.tls) {
    auto accepted = co_await protocols.tls->accept(std::move(stream), std::move(first), limits.head_timeout);
    close_on_drain.disarm();
    if (!accepted.ok() || (drain != nullptr && drain->requested())) co_return;
    if (accepted->protocol == "h2") {
      co_await serve_http2(std::move(accepted->stream), "", true, limits, handler, drain);
    } else {
      co_await serve_http1(std::move(accepted->stream), "", true, limits, handler, drain);
    }
    co_return;
  }
  close_on_drain.disarm();
  if (protocols.plain) {
    co_await serve_plain(std::move(stream), std::move(first), false, limits, handler, drain);
  } else {
    static const Handler kTlsOnly = answer_tls_only;
    co_await serve_plain(std::move(stream), std::move(first), false, limits, kTlsOnly, drain);
  }
}

}  // namespace atl::http
