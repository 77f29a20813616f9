// SPDX-License-Identifier: Apache-2.0
//
// MemoryStream: a peer whose every byte is known before. For fuzz targets and measurements.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "net/stream.h"

namespace atl::test_support {

// Gives `input` in pieces of at most `step` bytes, then the end; keeps or drops what is written.
class MemoryStream final : public net::Stream {
 public:
  MemoryStream(std::string input, std::size_t step, std::string* output = nullptr)
      : input_(std::move(input)), step_(std::max<std::size_t>(step, 1)), output_(output) {}

  net::Task<Result<std::size_t>> read_some(std::span<char> out) override {
    if (closed_) co_return make_error(Code::kCancelled, "closed");
    if (++reads_ % kYieldEvery == 0) co_await async::yield();
    auto count = std::min({out.size(), step_, input_.size() - used_});
    std::memcpy(out.data(), input_.data() + used_, count);
    used_ += count;
    co_return count;
  }
  net::Task<Result<void>> wait_readable() override {
    if (closed_) co_return make_error(Code::kCancelled, "closed");
    co_return success();
  }
  net::Task<Result<void>> write_all(std::string_view data) override { co_return take(data); }
  net::Task<Result<void>> write_all(std::string_view first, std::string_view second) override {
    CO_TRY_VOID(take(first));
    co_return take(second);
  }
  net::Task<Result<void>> write_all(std::string_view first, std::string_view second,
                                    std::string_view third) override {
    CO_TRY_VOID(take(first));
    CO_TRY_VOID(take(second));
    co_return take(third);
  }
  net::Task<Result<void>> shutdown_write() override { co_return take(""); }
  void close(Close) override { closed_ = true; }
  void set_idle_limit(Steady::duration) override {}
  net::Task<> wait_closed() override { co_return; }
  bool quiet() const override { return !closed_ && used_ < input_.size(); }
  std::string peer() const override { return "memory"; }

 private:
  static constexpr unsigned kYieldEvery = 8;  // other tasks of the connection get their turn too

  Result<void> take(std::string_view data) {
    if (closed_) return make_error(Code::kCancelled, "closed");
    if (output_ != nullptr) output_->append(data);
    return success();
  }

  std::string input_;
  std::size_t step_;
  std::string* output_;
  std::size_t used_ = 0;
  unsigned reads_ = 0;
  bool closed_ = false;
};

}  // namespace atl::test_support
