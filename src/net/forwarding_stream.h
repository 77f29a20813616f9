// SPDX-License-Identifier: Apache-2.0
//
// ForwardingStream: the base of a stream that changes one thing about another and passes on the rest.
#pragma once

#include "net/stream.h"

namespace atl::net {

// Owns `inner`, which is never null.
class ForwardingStream : public Stream {
 public:
  explicit ForwardingStream(StreamPtr inner) : inner_(std::move(inner)) {}

  Task<Result<std::size_t>> read_some(std::span<char> out) override { return inner_->read_some(out); }
  Task<Result<void>> wait_readable() override { return inner_->wait_readable(); }
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
  bool quiet() const override { return inner_->quiet(); }
  std::string peer() const override { return inner_->peer(); }

 protected:
  Stream& inner() { return *inner_; }
  const Stream& inner() const { return *inner_; }

 private:
  StreamPtr inner_;
};

}  // namespace atl::net
