// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "http/h2/connection.h"

namespace atl::http {

// One request on one stream; lives as long as its task, also when the stream ends before.
class H2Exchange final : public Exchange {
 public:
  H2Exchange(H2Connection& connection, H2Connection::StreamRef stream);

  Task<Result<std::size_t>> read_body(std::span<char> out) override;
  Task<Result<void>> send_head(ResponseHead head) override;
  Task<Result<void>> send_head_and(ResponseHead head, std::string_view first) override;
  Task<Result<void>> write(std::string_view data) override;
  Task<Result<void>> finish() override;
  void abort() override;
  Task<> wait_client_gone() override;
  Task<Result<net::StreamPtr>> upgrade(ResponseHead head) override;
  void set_idle_limit(Steady::duration limit) override { stream_->idle_limit = limit; }

  Task<> refuse(Refusal refusal);
  bool complete() const { return finished_; }

 private:
  Result<void> count_body(std::size_t size);
  Task<Result<void>> send_outgoing(std::string_view data);
  Error gone(std::string_view what) const;

  H2Connection& connection_;
  H2Connection::StreamRef stream_;
  bool sends_body_ = true;
  bool finished_ = false;
  bool aborted_ = false;
  std::optional<std::uint64_t> due_;  // body bytes still to be written, when the length was given
};

}  // namespace atl::http
