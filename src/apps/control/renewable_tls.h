// SPDX-License-Identifier: Apache-2.0
//
// A TLS context whose certificate can be replaced while the server runs. Handshakes under way keep the old
// one.
#pragma once

#include "net/tls/tls.h"

namespace atl::control_app {

class RenewableTls final : public net::TlsServerContext {
 public:
  void replace(std::shared_ptr<net::TlsServerContext> current) { current_ = std::move(current); }
  net::Task<Result<Accepted>> accept(net::StreamPtr stream, std::string prefix,
                                     Steady::duration limit) override {
    auto current = current_;
    co_return co_await current->accept(std::move(stream), std::move(prefix), limit);
  }

 private:
  std::shared_ptr<net::TlsServerContext> current_;
};

}  // namespace atl::control_app
