// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/answer_body.h"

#include <cstring>
#include <utility>

#include "base/memory.h"

namespace atl::gateway {
namespace {
constexpr std::size_t kFirstStep = 2 * 1024;
constexpr std::size_t kGathered = 16 * 1024;
}  // namespace

AnswerBody::AnswerBody(http::ClientExchange& exchange, std::unique_ptr<Decoder> decoder,
                       std::shared_ptr<const SecretPatterns> patterns, std::optional<FairShare::User> memory)
    : exchange_(&exchange), decoder_(std::move(decoder)), memory_(std::move(memory)), raw_(memory_) {
  if (patterns && !patterns->empty()) scanner_ = std::make_unique<SecretScanner>(std::move(patterns));
}

Result<AnswerBody> AnswerBody::make(http::ClientExchange& exchange, std::string_view coding,
                                    std::shared_ptr<const SecretPatterns> patterns,
                                    std::optional<FairShare::User> memory) {
  TRY(auto decoder, make_decoder(coding));
  return AnswerBody(exchange, std::move(decoder), std::move(patterns), std::move(memory));
}

Task<Result<std::size_t>> AnswerBody::read(std::span<char> out) {
  if (!decoder_ && !scanner_) co_return co_await exchange_->read_body(out);
  CO_TRY_VOID(co_await wait());
  auto count = std::min(out.size(), ready_.size() - given_);
  std::memcpy(out.data(), ready_.data() + given_, count);
  given_ += count;
  co_return count;
}

Task<Result<void>> AnswerBody::wait() {
  if (!decoder_ && !scanner_) co_return co_await exchange_->wait_body();
  while (given_ == ready_.size() && !ended_) {
    ready_.clear();
    given_ = 0;
    CO_TRY(bool more, co_await refill());
    if (more) continue;
    ended_ = true;
    if (scanner_) scanner_->finish(ready_);
  }
  co_return success();
}

void AnswerBody::settle(std::string_view plain) {
  if (scanner_) {
    scanner_->feed(plain, ready_);
  } else {
    ready_.append(plain);
  }
}

Task<Result<bool>> AnswerBody::refill() {
  if (raw_used_ == 0) {
    if (!raw_.filled() && !exchange_->body_waiting()) {
      raw_.release();
      for (std::string* held : {&plain_, &ready_}) free_text(*held);
      CO_TRY_VOID(co_await exchange_->wait_body());
    }
    CO_TRY(std::size_t count, co_await exchange_->read_body(raw_.space()));
    if (count == 0) {
      if (decoder_) CO_TRY_VOID(decoder_->finish());
      co_return false;
    }
    if (!decoder_) {
      settle(raw_.view(count));
      raw_.passed_on(count);
      co_return true;
    }
    decoder_->give(raw_.view(count));
    raw_used_ = count;
  }
  plain_.resize(kFirstStep * 2);
  CO_TRY(std::size_t count, decoder_->read(plain_));
  settle(std::string_view(plain_).substr(0, count));
  if (count == 0) raw_.passed_on(std::exchange(raw_used_, 0));
  co_return true;
}

namespace {
// Reads on while nothing has to be waited for. True at the body's end.
Task<Result<bool>> gather(AnswerBody& body, std::string& out) {
  std::size_t used = 0;
  while (used < kGathered && body.waiting()) {
    // Small at first: a stream that now waits for long would leave a large hole in the memory.
    if (used == out.size()) out.resize(std::clamp(used * 2, kFirstStep, kGathered));
    CO_TRY(std::size_t count, co_await body.read(std::span(out).subspan(used)));
    used += count;
    if (count == 0) {
      out.resize(used);
      co_return true;
    }
  }
  out.resize(used);
  co_return false;
}
}  // namespace

Task<Result<void>> pass_answer(AnswerBody& body, http::ResponseHead head, http::Exchange& exchange,
                               std::function<http::Headers()> trailers) {
  std::string first;
  CO_TRY(bool whole, co_await gather(body, first));
  http::Headers last;
  if (whole && trailers) last = trailers();
  // The length of an answer to HEAD is not that of what comes after it.
  bool plain = exchange.request().method != "HEAD" && last.size() == 0;
  if (whole && plain) co_return co_await exchange.respond(std::move(head), std::move(first));
  CO_TRY_VOID(co_await exchange.send_head_and(std::move(head), first));
  free_text(first);
  net::RelayBuffer buffer(body.memory());
  while (!whole) {
    if (!buffer.filled()) {
      buffer.release();
      CO_TRY_VOID(co_await body.wait());
    }
    CO_TRY(std::size_t count, co_await body.read(buffer.space()));
    if (count == 0) break;
    CO_TRY_VOID(co_await exchange.write(buffer.view(count)));
    buffer.passed_on(count);
  }
  if (!whole && trailers) last = trailers();
  exchange.set_trailers(std::move(last));
  co_return co_await exchange.finish();
}

}  // namespace atl::gateway
