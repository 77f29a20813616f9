// SPDX-License-Identifier: Apache-2.0
//
// HttpApi: how control reaches the vault, over the gateway's own unix socket. Values come in and never go
// out.
//
//   POST   /v1/vault/{tenant}/secrets             {"name", "value", "metadata"?, "credential"?}   201
//   GET    /v1/vault/{tenant}/secrets             {"secrets": [...]}, oldest first
//   GET    /v1/vault/{tenant}/secrets/{secret}    by id or name
//   POST   /v1/vault/{tenant}/secrets/{secret}    {"value", "metadata"?}: a new version
//   DELETE /v1/vault/{tenant}/secrets/{secret}    204
//   POST   /v1/vault/{tenant}/secrets/{secret}/authorization          begins it
//   POST   /v1/vault/{tenant}/secrets/{secret}/authorization/finish   {"state", "code"}, or {} for a device
//   GET    /v1/vault/{tenant}/bindings            {"bindings": [...]}
//   POST   /v1/vault/{tenant}/bindings            {"secret", and what binding.h says}             201
//   DELETE /v1/vault/{tenant}/bindings/{binding}  204
//   GET    /v1/vault/{tenant}/services            {"services": [...]}, by name
//   POST   /v1/vault/{tenant}/services            what service.h says; one of that name is replaced    201
//   DELETE /v1/vault/{tenant}/services/{name}     204
//   POST   /v1/vault/{tenant}/sealed/egress-proxy {"value"}: {"sealed"}, which only this vault opens, kept by
//   who asks
//
//   POST   /v1/vault/{tenant}/key                 a new master key, of all tenants: {"fingerprint"}
//
// Errors are {"code", "message", "error_code", "hint"?} with the status that belongs to them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "gateway/vault/minter.h"
#include "gateway/vault/vault.h"
#include "http/server.h"

namespace atl::gateway::vault {

class HttpApi {
 public:
  // How the master key is changed, where it can be.
  using ChangeKey = std::function<Task<Result<void>>()>;
  // Both must outlive this.
  HttpApi(Vault& vault, Minter& minter, ChangeKey change_key)
      : vault_(vault), minter_(minter), change_key_(std::move(change_key)) {}
  // True for the requests that are for this.
  static bool takes(const http::RequestHead& request);
  Task<> handle(http::Exchange& exchange);

 private:
  struct Reply {
    int status = 200;
    boost::json::object body;  // none with 204
  };
  struct Call {
    std::string method;
    std::string tenant;
    std::vector<std::string> path;  // after the tenant
    boost::json::object body;
  };
  Task<Result<Reply>> answer(http::Exchange& exchange);
  Task<Result<Reply>> secrets(Call call);
  Task<Result<Reply>> secret(Call call);
  Task<Result<Reply>> authorization(Call call);
  Task<Result<Reply>> finish_authorization(Call call);
  Task<Result<Reply>> bindings(Call call);
  Task<Result<Reply>> services(Call call);
  Task<Result<Reply>> change_key(Call call);
  Task<Result<Reply>> create(Call call);
  Task<Result<Reply>> rotate(Call call);
  Result<Reply> seal(Call call);

  Vault& vault_;
  Minter& minter_;
  ChangeKey change_key_;
  bool changing_key_ = false;
};

}  // namespace atl::gateway::vault
