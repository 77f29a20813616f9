// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/answer_body.h"

#include <cstring>

namespace atl::gateway {
namespace {
constexpr std::size_t kStep = 16 * 1024;
}

AnswerBody::AnswerBody(http::ClientExchange& exchange, std::unique_ptr<Decoder> decoder,
                       std::shared_ptr<const SecretPatterns> patterns)
    : exchange_(&exchange),
      decoder_(std::move(decoder)),
      scanner_(std::make_unique<SecretScanner>(
          patterns ? std::move(patterns)
                   : std::make_shared<const SecretPatterns>(std::vector<SecretPatterns::Pattern>()))) {}

Result<AnswerBody> AnswerBody::make(http::ClientExchange& exchange, std::string_view coding,
                                    std::shared_ptr<const SecretPatterns> patterns) {
  TRY(auto decoder, make_decoder(coding));
  return AnswerBody(exchange, std::move(decoder), std::move(patterns));
}

Task<Result<std::size_t>> AnswerBody::read(std::span<char> out) {
  while (given_ == ready_.size()) {
    if (ended_) co_return std::size_t{0};
    ready_.clear();
    given_ = 0;
    CO_TRY(bool more, co_await refill());
    if (more) continue;
    ended_ = true;
    scanner_->finish(ready_);
  }
  auto count = std::min(out.size(), ready_.size() - given_);
  std::memcpy(out.data(), ready_.data() + given_, count);
  given_ += count;
  co_return count;
}

Task<Result<bool>> AnswerBody::refill() {
  raw_.resize(kStep);
  if (!decoder_) {
    CO_TRY(std::size_t count, co_await exchange_->read_body(raw_));
    scanner_->feed(std::string_view(raw_).substr(0, count), ready_);
    co_return count > 0;
  }
  plain_.resize(kStep);
  if (!raw_left_) {
    CO_TRY(std::size_t count, co_await exchange_->read_body(raw_));
    if (count == 0) {
      CO_TRY_VOID(decoder_->finish());
      co_return false;
    }
    decoder_->give(std::string_view(raw_).substr(0, count));
    raw_left_ = true;
  }
  CO_TRY(std::size_t count, decoder_->read(plain_));
  raw_left_ = count > 0;
  scanner_->feed(std::string_view(plain_).substr(0, count), ready_);
  co_return true;
}

}  // namespace atl::gateway
