// SPDX-License-Identifier: Apache-2.0
//
// A server on one end of a stream pair, a test that speaks raw bytes on the other.
#pragma once

#include <gtest/gtest.h>

#include "http/server.h"
#include "net/tcp.h"

namespace atl::http::testing {

namespace asio = async::asio;

inline Task<> send_raw(net::Stream& stream, std::string bytes, bool then_end) {
  (void)co_await stream.write_all(bytes);
  if (then_end) (void)co_await stream.shutdown_write();
}

inline Task<> receive_raw(net::Stream& stream, std::string& out, std::optional<Error>& failure) {
  char buffer[4096];
  for (;;) {
    auto count = co_await stream.read_some(buffer);
    if (!count.ok()) failure = count.error();
    if (!count.ok() || *count == 0) {
      stream.close();
      co_return;
    }
    out.append(buffer, *count);
  }
}

struct Talk {
  std::string answer;            // all bytes that the server sent
  std::optional<Error> failure;  // how reading ended, if not cleanly
};

enum class Then : bool { kStayOpen, kEnd };

// Sends `bytes` to a server with `handler` and gives back what it answered until it closed the connection.
inline Talk talk(std::string bytes, const Handler& handler, ServerLimits limits = {},
                 Then then = Then::kEnd) {
  asio::io_context loop;
  auto [client, server] = net::stream_pair(loop.get_executor());
  Talk out;
  asio::co_spawn(loop, serve_http1(std::move(server), "", false, limits, handler), asio::detached);
  asio::co_spawn(loop, send_raw(*client, std::move(bytes), then == Then::kEnd), asio::detached);
  asio::co_spawn(loop, receive_raw(*client, out.answer, out.failure), asio::detached);
  loop.run();
  return out;
}

inline Task<> answer_ok(Exchange& exchange) {
  ResponseHead head;
  (void)co_await exchange.respond(std::move(head), "ok");
}

inline Task<> answer_echo(Exchange& exchange) {
  auto body = co_await exchange.read_all(1 << 20);
  ResponseHead head;
  if (!body.ok()) head.status = http_status(body.error().code());
  auto text = body.ok() ? *body : body.error().message();
  (void)co_await exchange.respond(std::move(head), std::move(text));
}

inline int status_of(std::string_view answer) {
  return answer.starts_with("HTTP/1.1 ") && answer.size() > 12 ? std::stoi(std::string(answer.substr(9, 3)))
                                                               : 0;
}

inline std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size()))
    ++count;
  return count;
}

}  // namespace atl::http::testing
