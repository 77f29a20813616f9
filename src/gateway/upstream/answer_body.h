// SPDX-License-Identifier: Apache-2.0
//
// AnswerBody: the body of an answer on its way to a sandbox, with secrets taken out of it.
#pragma once

#include <functional>

#include "async/task.h"
#include "gateway/upstream/decoder.h"
#include "gateway/upstream/scanner.h"
#include "http/client.h"
#include "http/server.h"
#include "net/relay.h"

namespace atl::gateway {

using async::Task;

// An answer's body, decoded and searched. Use once, from one task.
class AnswerBody {
 public:
  // Reads the body of `exchange`, which must outlive this. `coding` is the answer's Content-Encoding, undone
  // here; `patterns` may be null; buffers are taken from `memory`. kUnsupported for a coding that cannot be
  // undone.
  static Result<AnswerBody> make(http::ClientExchange& exchange, std::string_view coding,
                                 std::shared_ptr<const SecretPatterns> patterns,
                                 std::optional<FairShare::User> memory = {});

  // As ClientExchange::read_body(). Gives what has come as soon as it has come; only what may be the
  // beginning of a secret waits for what follows it.
  Task<Result<std::size_t>> read(std::span<char> out);
  // Completes when read() has something to give, with the same errors. Little memory is held meanwhile.
  Task<Result<void>> wait();
  // True when read() would probably not wait.
  bool waiting() const { return given_ < ready_.size() || ended_ || exchange_->body_waiting(); }
  std::size_t incidents() const { return scanner_ ? scanner_->incidents() : 0; }
  const std::optional<FairShare::User>& memory() const { return memory_; }

 private:
  AnswerBody(http::ClientExchange& exchange, std::unique_ptr<Decoder> decoder,
             std::shared_ptr<const SecretPatterns> patterns, std::optional<FairShare::User> memory);
  // Settles decoded bytes into ready_.
  void settle(std::string_view plain);
  // Reads and decodes once into ready_. False at the end of the body.
  Task<Result<bool>> refill();

  http::ClientExchange* exchange_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<SecretScanner> scanner_;  // null: nothing to look for
  std::optional<FairShare::User> memory_;
  net::RelayBuffer raw_;      // as received
  std::size_t raw_used_ = 0;  // bytes of it that the decoder is at
  std::string plain_;         // decoded
  std::string ready_;
  std::size_t given_ = 0;
  bool ended_ = false;
};

// Sends `head` and the whole body to the client of `exchange`, each part as soon as it is there. An answer
// that has come whole, and is small, goes out in one write, with its length. Trailers are the caller's:
// `trailers` is asked for them at the body's end, and may be null. On failure nothing clean has been said to
// the client: abort the exchange.
Task<Result<void>> pass_answer(AnswerBody& body, http::ResponseHead head, http::Exchange& exchange,
                               std::function<http::Headers()> trailers);

}  // namespace atl::gateway
