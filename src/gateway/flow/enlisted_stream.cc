// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/enlisted_stream.h"

#include "gateway/flow/parts.h"

namespace atl::gateway {
namespace {

using net::Stream;
using net::StreamPtr;
using net::Task;

class EnlistedStream final : public Stream {
 public:
  explicit EnlistedStream(StreamPtr inner) : inner_(std::move(inner)) {}
  void keep(std::shared_ptr<void> handle) { handle_ = std::move(handle); }

  Task<Result<std::size_t>> read_some(std::span<char> out) override { return inner_->read_some(out); }
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

 private:
  StreamPtr inner_;
  std::shared_ptr<void> handle_;  // goes first
};

}  // namespace

StreamPtr enlist(Flows& flows, SandboxPtr sandbox, StreamPtr stream) {
  auto enlisted = std::make_unique<EnlistedStream>(std::move(stream));
  Flows::Entry entry;
  entry.may_go_on = [sandbox](const SandboxPtr& now) { return runs_on(now, *sandbox); };
  entry.cut = [raw = enlisted.get()] { raw->close(Stream::Close::kReset); };
  auto handle = flows.open(sandbox->id, std::move(entry));
  if (!handle) {
    enlisted->close(Stream::Close::kReset);
    return nullptr;
  }
  enlisted->keep(std::move(handle));
  return enlisted;
}

}  // namespace atl::gateway
