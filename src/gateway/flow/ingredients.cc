// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/ingredients.h"

#include <algorithm>

namespace atl::gateway {

Result<Ingredients> find_ingredients(Parts& parts, const Inbound& in, bool secure,
                                     const http::RequestHead& request,
                                     const policy::RequestDecision& decision) {
  Ingredients out;
  std::vector<const vault::Binding*> found = find_bindings(parts, in, secure, request);
  TRY(out.credentials, find_credentials(parts, in, secure, found, decision));
  TRY(out.placeholders, find_placeholders(parts, in, found));
  return out;
}

async::Task<Result<void>> fetch_tokens(Parts& parts, Ingredients& ingredients) {
  CO_TRY(ingredients.tokens, co_await fetch_tokens(parts, ingredients.credentials));
  co_return co_await fetch_values(parts, ingredients.placeholders);
}

bool same(const Ingredients& a, const Ingredients& b) {
  const auto& one = a.placeholders;
  const auto& other = b.placeholders;
  auto same_credential = [](const vault::Resolvable& x, const vault::Resolvable& y) {
    return x.credential == y.credential;
  };
  // Each version is one object.
  return a.credentials == b.credentials && one.bindings == other.bindings &&
         std::equal(one.all.begin(), one.all.end(), other.all.begin(), other.all.end(), same_credential);
}

}  // namespace atl::gateway
