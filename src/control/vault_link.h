// SPDX-License-Identifier: Apache-2.0
//
// VaultLink: calls of the gateway's vault, rules and approvals, passed on for the API. Values pass through
// and are kept nowhere.
#pragma once

#include <string>

#include "base/secret.h"
#include "http/client.h"

namespace atl::control {

using async::Task;

class VaultLink {
 public:
  // To the gateway's socket; empty where there is no gateway.
  explicit VaultLink(http::Connector connect) : connect_(std::move(connect)) {}

  // `path` follows "/v1/vault/<tenant>/" and is percent-encoded. The answer is the gateway's, with its status
  // and JSON. kUnavailable, word "gateway_unavailable", when there is none.
  Task<Result<http::Answer>> call(std::string method, std::string tenant, std::string path,
                                  Secret body) const;
  // The same of its rules; `path` follows "/v1/rules".
  Task<Result<http::Answer>> rules(std::string method, std::string path, std::string body) const;
  // The same of requests that a person must approve; `path` follows "/v1/approvals/<tenant>".
  Task<Result<http::Answer>> approvals(std::string method, std::string tenant, std::string path,
                                       std::string body) const;

 private:
  Task<Result<http::Answer>> ask(std::string method, std::string target, Secret body) const;

  http::Connector connect_;
};

}  // namespace atl::control
