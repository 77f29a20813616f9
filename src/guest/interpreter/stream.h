// SPDX-License-Identifier: Apache-2.0
//
// Stream: the answer to /execute, line by line, with a sign of life when nothing else is said.
#pragma once

#include <functional>
#include <string>

#include "guest/interpreter/kernel.h"
#include "http/server.h"

namespace atl::guest::interpreter {

class Stream final : public Output {
 public:
  Stream(async::Executor executor, http::Exchange& exchange);

  // Waits while the client is slow. Does nothing once it has gone.
  Task<> put(std::string line) override;
  // The last line.
  Task<> end();
  // Says every few seconds that this goes on. Runs until end(), or until it is cancelled.
  Task<> keep_alive();

  void client_has_gone();
  // Breaks the answer off: whoever does not read it any more is not waited for.
  void cut_off();
  const bool& gone() const { return gone_; }
  // Called once, when the client goes before end().
  void on_gone(std::function<void()> call) { on_gone_ = std::move(call); }

 private:
  Task<> write(std::string_view line);

  http::Exchange& exchange_;
  async::Event changed_;
  std::function<void()> on_gone_;
  Steady::time_point last_ = Steady::now();
  bool busy_ = false;  // one line at a time
  bool ended_ = false;
  bool gone_ = false;
};

}  // namespace atl::guest::interpreter
