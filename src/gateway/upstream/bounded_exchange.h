// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "gateway/upstream/dial.h"
#include "http/client.h"

namespace atl::gateway {

// An exchange that keeps to the limits of its route, and that is started again while that is safe.
class BoundedExchange final : public http::ClientExchange {
 public:
  using Inner = std::unique_ptr<http::ClientExchange>;
  struct Repeat {
    std::function<Task<Result<Inner>>()> start;
    bool idempotent = false;  // also when it is not known whether the peer has acted on it
  };
  BoundedExchange(Inner inner, Timeouts limits, Repeat repeat);

  Task<Result<void>> write_body(std::string_view data) override;
  Task<Result<void>> finish_body() override;
  Task<Result<http::ResponseHead>> read_head() override;
  Task<Result<std::size_t>> read_body(std::span<char> out) override;
  Task<Result<void>> wait_body() override;
  bool body_waiting() const override { return inner_->body_waiting(); }
  net::StreamPtr take_stream() override { return inner_->take_stream(); }
  std::string peer() const override { return inner_->peer(); }
  void close() override;
  // For the bodies; the limits of the route stay in force beside it.
  void set_idle_limit(Steady::duration limit) override { limits_.idle = limit; }

 private:
  // Sets the limit of the next step; kDeadline when the time for all is over.
  Result<void> allow(Steady::duration limit);

  Inner inner_;
  Timeouts limits_;
  Repeat repeat_;
  Steady::time_point until_;
  bool body_taken_ = false;  // a byte of the request's body has been given away
  bool finished_ = false;
  bool closed_ = false;
};

}  // namespace atl::gateway
