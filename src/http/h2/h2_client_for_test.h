// SPDX-License-Identifier: Apache-2.0
//
// A small HTTP/2 client on nghttp2, for tests; it can also misbehave.
#pragma once

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <map>

#include "http/h2/server.h"
#include "net/tcp.h"

namespace atl::http::testing {

namespace asio = async::asio;

struct H2Client {
  struct Reply {
    int status = 0;
    Headers headers;
    std::string body;
    bool closed = false;
    std::uint32_t error = 0;
    std::string upload;
    std::size_t sent = 0;
    bool hold_upload = false;  // sends what there is, but no end
  };

  net::StreamPtr stream;
  nghttp2_session* session = nullptr;
  std::map<std::int32_t, Reply> replies;
  std::optional<std::uint32_t> goaway;
  bool ended = false;       // the server has closed the connection
  bool read_bodies = true;  // false: never gives back windows

  explicit H2Client(net::StreamPtr s) : stream(std::move(s)) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    // Without this the client itself would refuse to send what a test wants to see refused.
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_peer_max_concurrent_streams(option, 1000);
    nghttp2_session_client_new2(&session, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, 0, nullptr, 0);
  }
  ~H2Client() { nghttp2_session_del(session); }

  using Fields = std::vector<std::pair<std::string, std::string>>;
  static Fields get(std::string path) {
    return {{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", std::move(path)}};
  }
  static Fields post(std::string path) {
    auto fields = get(std::move(path));
    fields[0].second = "POST";
    return fields;
  }

  std::int32_t request(const Fields& fields, std::optional<std::string> body = std::nullopt,
                       bool hold = false) {
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields) {
      auto bytes = [](const std::string& s) {
        return reinterpret_cast<std::uint8_t*>(const_cast<char*>(s.data()));
      };
      list.push_back({bytes(name), bytes(value), name.size(), value.size(), 0});
    }
    nghttp2_data_provider provider{};
    provider.read_callback = read_upload;
    auto id = nghttp2_submit_request(session, nullptr, list.data(), list.size(), body ? &provider : nullptr,
                                     nullptr);
    auto& reply = replies[id];
    reply.upload = body.value_or("");
    reply.hold_upload = hold;
    return id;
  }

  bool all_closed() const {
    for (const auto& [id, reply] : replies) {
      if (!reply.closed) return false;
    }
    return true;
  }

  Task<bool> flush() {
    std::string out;
    for (;;) {
      const std::uint8_t* data = nullptr;
      auto size = nghttp2_session_mem_send(session, &data);
      if (size <= 0) break;
      out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
    }
    if (out.empty()) co_return true;
    co_return (co_await stream->write_all(out)).ok();
  }

  // Sends and receives until `done` or the server's end.
  Task<> drive(std::function<bool()> done) {
    std::string buffer(64 * 1024, '\0');
    while (!done()) {
      if (!co_await flush()) break;
      auto count = co_await stream->read_some(buffer);
      if (!count.ok() || *count == 0) break;
      if (nghttp2_session_mem_recv(session, reinterpret_cast<const std::uint8_t*>(buffer.data()), *count) < 0)
        break;
    }
    ended = !done();
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                       void* user) {
    auto& reply = static_cast<H2Client*>(user)->replies[frame->hd.stream_id];
    std::string n(reinterpret_cast<const char*>(name), name_size),
        v(reinterpret_cast<const char*>(value), value_size);
    if (n == ":status") reply.status = std::stoi(v);
    reply.headers.add(n, v);
    return 0;
  }
  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                     std::size_t size, void* user) {
    auto& self = *static_cast<H2Client*>(user);
    self.replies[id].body.append(reinterpret_cast<const char*>(data), size);
    if (self.read_bodies) nghttp2_session_consume(session, id, size);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
    auto& reply = static_cast<H2Client*>(user)->replies[id];
    reply.closed = true;
    reply.error = error;
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) static_cast<H2Client*>(user)->goaway = frame->goaway.error_code;
    return 0;
  }
  static ssize_t read_upload(nghttp2_session*, std::int32_t id, std::uint8_t* out, std::size_t size,
                             std::uint32_t* flags, nghttp2_data_source*, void* user) {
    auto& reply = static_cast<H2Client*>(user)->replies[id];
    auto count = std::min(size, reply.upload.size() - reply.sent);
    std::memcpy(out, reply.upload.data() + reply.sent, count);
    reply.sent += count;
    if (reply.sent == reply.upload.size()) {
      if (!reply.hold_upload) *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (count == 0 && reply.hold_upload) return NGHTTP2_ERR_DEFERRED;
    }
    return static_cast<ssize_t>(count);
  }
};

// A server with `handler` and a client on one loop. `script` queues requests and says when the client is
// done.
struct H2Pair {
  asio::io_context loop;
  ServerLimits limits;
  Handler handler;
  Drain drain;
  std::optional<H2Client> client;
  bool server_ended = false;

  explicit H2Pair(Handler h, ServerLimits l = {}) : limits(l), handler(std::move(h)) {
    auto [a, b] = net::stream_pair(loop.get_executor());
    client.emplace(std::move(a));
    asio::co_spawn(loop, serve_http2(std::move(b), "", false, limits, handler, &drain),
                   [this](std::exception_ptr) { server_ended = true; });
  }
  // Runs until `done`, then closes the client's end and lets the server finish.
  void run(std::function<bool()> done) {
    asio::co_spawn(loop, drive(std::move(done)), asio::detached);
    loop.run();
    EXPECT_TRUE(server_ended);
  }
  void run() {
    run([this] { return client->all_closed(); });
  }
  Task<> drive(std::function<bool()> done) {
    co_await client->drive(std::move(done));
    client->stream->close();
  }
};

}  // namespace atl::http::testing
