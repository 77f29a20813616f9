// SPDX-License-Identifier: Apache-2.0
//
// ApprovalsApi: how control reaches the approvals, over the gateway's own unix socket. No sandbox can.
//
//   GET  /v1/approvals/{tenant}?state=&sandbox=&limit=   {"approvals": [...]}, the newest first
//   GET  /v1/approvals/{tenant}/{id}                     one, with its summary
//   POST /v1/approvals/{tenant}/{id}?by=                 {"decision": "approve"|"deny", "reason"?}: it,
//   decided
//
// Control says whose key it was. Errors are {"code", "message", "error_code", "hint"?} with their status.
#pragma once

#include "gateway/approvals/approvals.h"
#include "http/server.h"

namespace atl::gateway {

class ApprovalsApi {
 public:
  static constexpr std::size_t kMostListed = 1000;
  static constexpr std::size_t kMaxReason = 512;

  explicit ApprovalsApi(Approvals& approvals) : approvals_(approvals) {}
  // True for the requests that are for this.
  static bool takes(const http::RequestHead& request);
  async::Task<> handle(http::Exchange& exchange);

 private:
  async::Task<Result<boost::json::object>> answer(http::Exchange& exchange);
  Result<boost::json::object> list(const std::string& tenant, std::string_view query) const;

  Approvals& approvals_;
};

}  // namespace atl::gateway
