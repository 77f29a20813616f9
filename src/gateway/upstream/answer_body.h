// SPDX-License-Identifier: Apache-2.0
//
// AnswerBody: the body of an answer on its way to a sandbox, with secrets taken out of it.
#pragma once

#include "async/task.h"
#include "gateway/upstream/decoder.h"
#include "gateway/upstream/scanner.h"
#include "http/client.h"

namespace atl::gateway {

using async::Task;

// Use once, from one task.
class AnswerBody {
 public:
  // Reads the body of `exchange`, which must outlive this. `coding` is the answer's Content-Encoding, undone
  // here; `patterns` may be null. kUnsupported for a coding that cannot be undone.
  static Result<AnswerBody> make(http::ClientExchange& exchange, std::string_view coding,
                                 std::shared_ptr<const SecretPatterns> patterns);

  // As ClientExchange::read_body(). Gives what has come as soon as it has come; only what may be the
  // beginning of a secret waits for what follows it.
  Task<Result<std::size_t>> read(std::span<char> out);
  std::size_t incidents() const { return scanner_->incidents(); }

 private:
  AnswerBody(http::ClientExchange& exchange, std::unique_ptr<Decoder> decoder,
             std::shared_ptr<const SecretPatterns> patterns);
  // Reads and decodes once into ready_. False at the end of the body.
  Task<Result<bool>> refill();

  http::ClientExchange* exchange_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<SecretScanner> scanner_;
  std::string raw_;    // as received
  std::string plain_;  // decoded
  bool raw_left_ = false;
  std::string ready_;
  std::size_t given_ = 0;
  bool ended_ = false;
};

}  // namespace atl::gateway
