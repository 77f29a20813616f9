// SPDX-License-Identifier: Apache-2.0
#include "net/prefix_stream.h"

#include <algorithm>
#include <cstring>

namespace atl::net {
namespace {

class PrefixStream final : public Stream {
 public:
  PrefixStream(StreamPtr inner, std::string prefix) : inner_(std::move(inner)), prefix_(std::move(prefix)) {}

  Task<Result<std::size_t>> read_some(std::span<char> out) override {
    if (prefix_.empty()) co_return co_await inner_->read_some(out);
    auto count = std::min(out.size(), prefix_.size() - used_);
    std::memcpy(out.data(), prefix_.data() + used_, count);
    used_ += count;
    if (used_ == prefix_.size()) prefix_ = std::string();
    co_return count;
  }
  Task<Result<void>> write_all(std::string_view data) override { return inner_->write_all(data); }
  Task<Result<void>> write_all(std::string_view first, std::string_view second) override {
    return inner_->write_all(first, second);
  }
  Task<Result<void>> write_all(std::string_view first, std::string_view second,
                               std::string_view third) override {
    return inner_->write_all(first, second, third);
  }
  Task<Result<void>> shutdown_write() override { return inner_->shutdown_write(); }
  void close(Close how) override { inner_->close(how); }
  void set_idle_limit(Steady::duration limit) override { inner_->set_idle_limit(limit); }
  Task<> wait_closed() override { return inner_->wait_closed(); }
  Task<bool> refused(Steady::duration limit) override { return inner_->refused(limit); }
  bool quiet() const override { return prefix_.empty() && inner_->quiet(); }
  std::string peer() const override { return inner_->peer(); }

 private:
  StreamPtr inner_;
  std::string prefix_;
  std::size_t used_ = 0;
};

}  // namespace

StreamPtr with_prefix(StreamPtr stream, std::string prefix) {
  if (prefix.empty()) return stream;
  return std::make_unique<PrefixStream>(std::move(stream), std::move(prefix));
}

}  // namespace atl::net
