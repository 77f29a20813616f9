// SPDX-License-Identifier: Apache-2.0
#include "net/prefix_stream.h"

#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "net/forwarding_stream.h"

namespace atl::net {
namespace {

class PrefixStream final : public ForwardingStream {
 public:
  PrefixStream(StreamPtr stream, std::string prefix)
      : ForwardingStream(std::move(stream)), prefix_(std::move(prefix)) {}

  Task<Result<std::size_t>> read_some(std::span<char> out) override {
    return prefix_.empty() ? inner().read_some(out) : from_prefix(out);
  }
  Task<Result<void>> wait_readable() override {
    return prefix_.empty() ? inner().wait_readable() : at_once();
  }
  bool quiet() const override { return prefix_.empty() && inner().quiet(); }

 private:
  Task<Result<std::size_t>> from_prefix(std::span<char> out) {
    auto count = std::min(out.size(), prefix_.size() - used_);
    std::memcpy(out.data(), prefix_.data() + used_, count);
    used_ += count;
    if (used_ == prefix_.size()) free_text(prefix_);
    co_return count;
  }
  static Task<Result<void>> at_once() { co_return success(); }

  std::string prefix_;
  std::size_t used_ = 0;
};

}  // namespace

StreamPtr with_prefix(StreamPtr stream, std::string prefix) {
  if (prefix.empty()) return stream;
  return std::make_unique<PrefixStream>(std::move(stream), std::move(prefix));
}

}  // namespace atl::net
