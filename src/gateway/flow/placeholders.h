// SPDX-License-Identifier: Apache-2.0
//
// Placeholders in a request: what they stand for at the host that it goes to, and their values put in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/flow/credentials.h"
#include "gateway/flow/parts.h"
#include "gateway/vault/placeholder.h"

namespace atl::gateway {

// Bodies of a known length up to this are read whole, so that they still have one when values are put in;
// longer ones go out in chunks.
inline constexpr std::size_t kMaxCollectedBody = 1 << 20;

// What may be put into one request. Keep it until the request has gone out.
struct Placeholders {
  std::vector<vault::Resolvable> all;
  std::vector<vault::TokenPtr> tokens;  // that values of `all` may lie in; null where there is none
  std::vector<std::string> bindings;    // by id
  bool searches_body() const;
};

// What the bindings for a request let placeholders stand for. kDenied, word
// "credential_unusable", when a credential is not there or of a kind that is no text. Values that are tokens
// are still to be fetched.
Result<Placeholders> find_placeholders(Parts& parts, const Inbound& in,
                                       const std::vector<const vault::Binding*>& found);
// Waits for token endpoints where there is no good token.
async::Task<Result<void>> fetch_values(Parts& parts, Placeholders& found);

// The credentials join those that the answer is searched for and that connections are kept apart by.
void add_placeholders(Parts& parts, const Placeholders& found, Injection& injection);

// Goes through the body of a request that is on its way; null when nothing is searched for in it.
std::unique_ptr<vault::BodyResolver> make_body_resolver(const Placeholders& found,
                                                        const http::RequestHead& request);
// The whole body with the values put in.
Result<std::string> resolve_body(const Placeholders& found, const http::RequestHead& request,
                                 std::string_view body);

// The variables that hold placeholders in this sandbox, by the bindings of now.
model::StringMap placeholder_variables(const vault::Vault& vault, const vault::Locked& root,
                                       const Sandbox& sandbox);

}  // namespace atl::gateway
