// SPDX-License-Identifier: Apache-2.0
//
// The connection behind make_h2_client(): a reading and a writing task drive the session, exchanges use its
// streams.
#pragma once

#include <nghttp2/nghttp2.h>

#include <map>

#include "http/h2/budget.h"
#include "http/h2/client.h"
#include "http/h2/incoming.h"
#include "http/h2/outgoing.h"

namespace atl::http {

// What connection and exchange share about one request and its answer.
struct H2ClientStream : H2Outgoing, H2Incoming {
  explicit H2ClientStream(async::Executor executor) : H2Outgoing(executor), readable(executor) {}

  std::int32_t id = 0;
  async::Event readable;  // the head, body bytes, the body's end, or the end of the stream

  // The request.
  bool head_sent = false;
  Headers request_trailers;

  // The answer.
  ResponseHead head{.status = 0};
  bool head_done = false;
  std::size_t head_bytes = 0;
  int interim = 0;
  Headers trailers;
  std::size_t trailer_bytes = 0;
  bool end_received = false;

  bool dropped = false;  // no exchange reads it any more
  bool closed = false;
  std::optional<Error> failure;  // why it was closed before its end

  void close(std::optional<Error> why);
};

// Held by the pool and by its exchanges; its two tasks hold it, too, until the connection is over.
class H2ClientConnection final : public H2Client {
 public:
  using StreamRef = std::shared_ptr<H2ClientStream>;

  H2ClientConnection(async::Executor executor, net::StreamPtr stream, H2ClientLimits limits);
  ~H2ClientConnection() override;

  Result<void> start_session();
  Task<> read_loop();
  Task<> write_loop();

  Task<Result<std::unique_ptr<ClientExchange>>> start(RequestHead request, BeforeSend before_send) override;
  void close_idle() override;
  bool usable() const override;
  std::size_t active() const override { return streams_.size(); }

  // For the exchanges. All of them do nothing once the connection is over.
  void resume(H2ClientStream& stream);                      // `outgoing` or `end_queued` has changed
  void release(H2ClientStream& stream, std::size_t bytes);  // the caller has taken body bytes
  void drop(H2ClientStream& stream);                        // nobody waits for it any more
  std::string peer() const { return stream_->peer(); }

 private:
  friend struct H2ClientCallbacks;

  Result<StreamRef> submit(const RequestHead& request, bool has_body);
  bool receive(std::string_view bytes);
  bool collect_output();
  void end(Error why);
  int charge(const char* what);
  StreamRef find(std::int32_t id) const;
  Error closed_stream(const H2ClientStream& stream, std::uint32_t code) const;

  async::Executor executor_;
  net::StreamPtr stream_;
  const H2ClientLimits limits_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, StreamRef> streams_;
  H2Room room_;           // for the bodies of all streams
  std::string out_;       // frames on their way to the socket
  bool over_ = false;     // neither reads nor writes
  bool leaving_ = false;  // no new requests: GOAWAY came, or close_idle()
  const char* abuse_ = nullptr;
  Budget controls_;      // PING, SETTINGS, PRIORITY and empty frames
  async::Event output_;  // the writer has something to do
};

}  // namespace atl::http
