// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "http/h2/client_connection.h"

namespace atl::http {

// One request and its answer on a stream of a connection, which it keeps alive.
class H2ClientExchange final : public ClientExchange {
 public:
  H2ClientExchange(std::shared_ptr<H2ClientConnection> connection, H2ClientConnection::StreamRef stream,
                   const RequestHead& request, bool has_body);
  ~H2ClientExchange() override;

  Task<Result<void>> write_body(std::string_view data) override;
  Task<Result<void>> finish_body() override;
  Task<Result<ResponseHead>> read_head() override;
  Task<Result<std::size_t>> read_body(std::span<char> out) override;
  bool body_waiting() const override { return stream_->buffered() > 0 || stream_->end_received; }
  Task<Result<void>> wait_body() override;
  net::StreamPtr take_stream() override;
  std::string peer() const override { return connection_->peer(); }
  void close() override;
  void set_idle_limit(Steady::duration limit) override { idle_limit_ = limit; }

 private:
  Error failure(std::string_view what) const;
  Steady::time_point deadline() const;

  std::shared_ptr<H2ClientConnection> connection_;
  H2ClientConnection::StreamRef stream_;
  std::optional<std::uint64_t> due_;
  bool request_complete_;
  bool head_read_ = false;
  bool closed_ = false;
  Steady::duration idle_limit_{};
};

}  // namespace atl::http
