// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/stream.h"

#include "guest/interpreter/limits.h"
#include "guest/interpreter/lines.h"

namespace atl::guest::interpreter {

Stream::Stream(async::Executor executor, http::Exchange& exchange)
    : exchange_(exchange), changed_(executor) {}

Task<> Stream::write(std::string_view line) {
  while (busy_) co_await changed_.wait();
  if (gone_) co_return;
  busy_ = true;
  Result<void> sent = success();
  if (exchange_.head_sent()) {
    sent = co_await exchange_.write(line);
  } else {
    http::ResponseHead head;
    head.headers.add("content-type", "application/x-ndjson");
    head.headers.add("cache-control", "no-store");
    sent = co_await exchange_.send_head_and(std::move(head), line);
  }
  busy_ = false;
  last_ = Steady::now();
  changed_.notify_all();
  if (!sent.ok()) client_has_gone();
}

Task<> Stream::put(std::string line) { co_await write(line); }

Task<> Stream::end() {
  co_await write(kEndLine);
  ended_ = true;
  changed_.notify_all();
}

Task<> Stream::keep_alive() {
  while (!ended_ && !gone_) {
    auto due = last_ + kKeepalive;
    if (busy_)
      co_await changed_.wait();
    else if (Steady::now() < due)
      co_await changed_.wait_until(due);
    else
      co_await write(kKeepaliveLine);
  }
}

void Stream::cut_off() {
  exchange_.abort();
  client_has_gone();
}

void Stream::client_has_gone() {
  if (gone_ || ended_) return;
  gone_ = true;
  changed_.notify_all();
  if (on_gone_) on_gone_();
}

}  // namespace atl::guest::interpreter
