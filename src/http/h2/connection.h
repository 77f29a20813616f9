// SPDX-License-Identifier: Apache-2.0
//
// One HTTP/2 connection of the server. A reading and a writing task drive the session; each stream's exchange
// is a task of its own. Used by serve_http2() only.
#pragma once

#include <nghttp2/nghttp2.h>

#include <map>
#include <memory>
#include <vector>

#include "async/scope.h"
#include "http/h2/budget.h"
#include "http/h2/stream.h"

namespace atl::http {

class H2Connection {
 public:
  H2Connection(async::Executor executor, net::StreamPtr stream, bool secure, const ServerLimits& limits,
               const Handler& handler, Drain* drain);
  ~H2Connection();
  H2Connection(const H2Connection&) = delete;
  H2Connection& operator=(const H2Connection&) = delete;

  Task<> run(std::string prefix);

  // For the exchanges. All of them do nothing once the connection is over.
  using StreamRef = std::shared_ptr<H2Stream>;
  // Sends a head; `has_body` says that data follows through `outgoing`.
  Result<void> submit_head(H2Stream& stream, const ResponseHead& head, bool has_body);
  void resume(H2Stream& stream);                      // `outgoing` or `end_queued` has changed
  void release(H2Stream& stream, std::size_t bytes);  // the handler has taken body bytes
  void reset(H2Stream& stream, std::uint32_t error);
  bool draining() const { return draining_; }

 private:
  friend struct H2Callbacks;

  Result<void> start_session();
  Task<> read_loop();
  // Gives bytes to the session. False when the connection must end.
  bool receive(std::string_view bytes);
  Task<> write_loop();
  bool collect_output();
  Task<> watch_deadlines();
  void expire_late(Steady::time_point now);
  Steady::time_point next_deadline() const;

  void start_exchanges();
  Task<> run_exchange(StreamRef stream);
  void stop_upload(H2Stream& stream);
  void discard_body(H2Stream& stream);
  void exchange_over(H2Stream& stream);
  void start_drain();
  // Sends what is queued, then closes the connection.
  Task<> say_goodbye();
  // Takes one event off `budget`. When it is used up, gives what makes nghttp2 stop, and the connection ends.
  int charge(Budget& budget, const char* what);
  StreamRef find(std::int32_t id) const;

  async::Executor executor_;
  net::StreamPtr stream_;
  const bool secure_;
  const ServerLimits& limits_;
  const Handler& handler_;
  Drain* drain_;
  nghttp2_session* session_ = nullptr;

  std::map<std::int32_t, StreamRef> streams_;  // open in the session
  std::vector<StreamRef> ready_;               // heads complete, exchange not started yet
  std::size_t live_ = 0;                       // exchanges that run
  H2Room room_;                                // for the bodies of all streams

  std::string out_;     // frames on their way to the socket
  bool over_ = false;   // no more reading; write what is queued, then end
  bool asked_ = false;  // a request has come
  bool draining_ = false;
  bool writer_done_ = false;
  const char* abuse_ = nullptr;

  Budget resets_;    // streams that the peer resets or makes us reset
  Budget controls_;  // PING, SETTINGS, PRIORITY and empty frames

  async::Event output_;  // the writer has something to do
  async::Event writer_ended_;
  async::Event exchange_ended_;
  async::Event streams_changed_;
  async::Scope exchanges_;
  async::Scope helpers_;
};

}  // namespace atl::http
