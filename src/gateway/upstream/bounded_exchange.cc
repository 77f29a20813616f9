// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/bounded_exchange.h"

#include "http/h2/client.h"

namespace atl::gateway {

BoundedExchange::BoundedExchange(Inner inner, Timeouts limits, Repeat repeat)
    : inner_(std::move(inner)),
      limits_(limits),
      repeat_(std::move(repeat)),
      until_(limits.total > Steady::duration::zero() ? Steady::now() + limits.total
                                                     : Steady::time_point::max()) {}

Result<void> BoundedExchange::allow(Steady::duration limit) {
  if (until_ != Steady::time_point::max()) {
    auto left = until_ - Steady::now();
    if (left <= Steady::duration::zero())
      return make_error(Code::kDeadline, "the exchange takes longer than the time for all of it");
    if (limit <= Steady::duration::zero() || left < limit) limit = left;
  }
  inner_->set_idle_limit(limit);
  return success();
}

Task<Result<void>> BoundedExchange::write_body(std::string_view data) {
  CO_TRY_VOID(allow(limits_.idle));
  body_taken_ |= !data.empty();
  co_return co_await inner_->write_body(data);
}

Task<Result<void>> BoundedExchange::finish_body() {
  CO_TRY_VOID(allow(limits_.idle));
  finished_ = true;
  inner_->set_trailers(request_trailers_);
  co_return co_await inner_->finish_body();
}

Task<Result<http::ResponseHead>> BoundedExchange::read_head() {
  CO_TRY_VOID(allow(limits_.first_byte));
  auto head = co_await inner_->read_head();
  if (head.ok() || body_taken_ || closed_ || !repeat_.start) co_return head;
  bool untouched = head.error().word() == http::kNotProcessed;
  if (!untouched && !(repeat_.idempotent && head.error().code() == Code::kUnavailable)) co_return head;
  auto start = std::exchange(repeat_.start, nullptr);
  auto again = co_await start();
  // Meanwhile the other side went on. A byte that the old exchange took is lost: the repeat would be a whole
  // request with too little in it.
  if (closed_)
    co_return make_error(Code::kCancelled, "read an answer: the exchange has been closed on this side");
  if (body_taken_) co_return head;
  if (!again.ok()) co_return std::move(again).error();
  inner_ = std::move(*again);
  CO_TRY_VOID(allow(limits_.first_byte));
  if (finished_) {
    inner_->set_trailers(request_trailers_);
    CO_TRY_VOID(co_await inner_->finish_body());
  }
  co_return co_await inner_->read_head();
}

void BoundedExchange::close() {
  closed_ = true;
  inner_->close();
}

Task<Result<void>> BoundedExchange::wait_body() {
  CO_TRY_VOID(allow(limits_.idle));
  co_return co_await inner_->wait_body();
}

Task<Result<std::size_t>> BoundedExchange::read_body(std::span<char> out) {
  CO_TRY_VOID(allow(limits_.idle));
  auto count = co_await inner_->read_body(out);
  if (count.ok() && *count == 0) trailers_ = inner_->trailers();
  co_return count;
}

}  // namespace atl::gateway
