// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/enlisted_stream.h"

#include "gateway/flow/parts.h"
#include "net/forwarding_stream.h"

namespace atl::gateway {
namespace {

using net::Stream;
using net::StreamPtr;

class EnlistedStream final : public net::ForwardingStream {
 public:
  using ForwardingStream::ForwardingStream;
  void keep(std::shared_ptr<void> handle) { handle_ = std::move(handle); }

 private:
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
