// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/intercept.h"

#include "base/bytes.h"

namespace atl::gateway {

Result<void> Interceptor::prepare() {
  TRY(acceptor_, net::TlsAcceptor::make());
  return success();
}

net::Task<Result<net::TlsServerContext::Accepted>> Interceptor::accept(net::StreamPtr stream,
                                                                       std::string hello,
                                                                       InterceptRequest request) {
  CO_TRY(net::Presented presented, request.authority->leaf(request.host, clock_.now()));
  net::AcceptOptions options;
  options.protocols = request.protocols;
  // The authority is in it too: tickets of one that the sandbox no longer trusts are worth nothing.
  options.session_context =
      sha256(fmt::format("{}\n{}\n{}", request.client, request.host, request.authority->certificate_pem()));
  options.limit = request.limit;
  co_return co_await acceptor_->accept(std::move(stream), std::move(hello), std::move(presented),
                                       std::move(options));
}

}  // namespace atl::gateway
