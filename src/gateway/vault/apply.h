// SPDX-License-Identifier: Apache-2.0
//
// How a credential goes into a request. Pure functions: the request's facts in, the changes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "gateway/vault/vault.h"
#include "http/message.h"

namespace atl::gateway::vault {

// One thing to put into a request: a header or a query parameter, by its name.
struct Setting {
  std::string name;
  Secret value;
};

// What a credential does to a request.
struct Changes {
  std::vector<Setting> headers;
  std::vector<Setting> query;
  std::vector<std::string> remove_headers;  // lower case; what `headers` sets is removed too
};

// A credential and the request that it goes into.
struct ApplyInput {
  const Credential& credential;
  const http::RequestHead& request;  // as it came from the sandbox; its authority is the canonical one
  const Locked* token = nullptr;     // of a kind that has one (minter.h)
  // Hexadecimal SHA-256 of the body; empty when the body has not been read. See needs_body_hash().
  std::string body_sha256;
  WallTime now;
};

// kInvalid and kDenied errors go to the sandbox, so they tell no value. A value with a control character is
// refused.
Result<Changes> apply(const ApplyInput& input);

// True when the request must be read to its end before it can be signed: AWS services other than S3, unless
// the program inside has sent the hash of its body.
bool needs_body_hash(const Credential& credential, const http::RequestHead& request);

// Removes from the request what `changes` set, in every spelling, and then sets it. In headers `_` is `-`
// (servers that speak CGI cannot tell them apart); a name in `Connection` is removed there, or the next hop
// would drop what was set. kDenied when a trailer is announced that would say it again.
Result<void> inject(http::RequestHead& request, const Changes& changes);

}  // namespace atl::gateway::vault
