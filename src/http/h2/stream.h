// SPDX-License-Identifier: Apache-2.0
//
// What connection and exchange share about one HTTP/2 stream. Plain state; the connection owns the protocol.
#pragma once

#include <optional>

#include "async/event.h"
#include "http/h2/incoming.h"
#include "http/h2/outgoing.h"
#include "http/head_parser.h"
#include "http/server.h"

namespace atl::http {

struct H2Stream : H2Outgoing, H2Incoming {
  H2Stream(async::Executor executor, std::int32_t number, Steady::duration limit)
      : H2Outgoing(executor), id(number), idle_limit(limit), readable(executor) {}

  const std::int32_t id;
  Steady::duration idle_limit;
  async::Event readable;  // body bytes, the body's end, or the end of the stream

  // The request, while its fields arrive and after.
  RequestHead request;
  std::size_t head_bytes = 0;
  std::optional<Refusal> refusal;  // answer this instead of calling the handler

  // The request's body.
  bool end_received = false;
  Headers request_trailers;
  std::size_t trailer_bytes = 0;

  // The answer.
  Headers trailers;  // sent after the body's end
  bool end_sent = false;

  bool started = false;  // an exchange runs or has run
  bool handler_done = false;
  bool closed = false;

  // Until when the pending read and write must make progress; max = no limit.
  Steady::time_point read_deadline = Steady::time_point::max();
  Steady::time_point write_deadline = Steady::time_point::max();

  void close() {
    closed = true;
    outgoing = {};
    readable.notify_all();
    writable.notify_all();
  }
};

}  // namespace atl::http
