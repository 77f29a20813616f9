// SPDX-License-Identifier: Apache-2.0
//
// Ingredients: everything secret that goes into one request. They are found before the request waits for
// anything, and must be the same when its head is made: who keeps a request waiting keeps no secret by it.
#pragma once

#include <vector>

#include "gateway/flow/credentials.h"
#include "gateway/flow/placeholders.h"

namespace atl::gateway {

struct Ingredients {
  std::vector<vault::CredentialPtr> credentials;
  std::vector<vault::TokenPtr> tokens;  // as of fetch_tokens()
  Placeholders placeholders;
};

// By bindings, versions and the policy's decision as they are now; without tokens. Errors as of
// find_credentials() and find_placeholders().
Result<Ingredients> find_ingredients(Parts& parts, const Inbound& in, bool secure,
                                     const http::RequestHead& request,
                                     const policy::RequestDecision& decision);

// Adds the tokens. Waits for token endpoints where there is no good token.
async::Task<Result<void>> fetch_tokens(Parts& parts, Ingredients& ingredients);

// True when both are of the same bindings and of the same versions of the same secrets.
bool same(const Ingredients& a, const Ingredients& b);

}  // namespace atl::gateway
