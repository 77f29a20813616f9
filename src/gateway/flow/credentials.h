// SPDX-License-Identifier: Apache-2.0
//
// Which credentials go into a request, and how they get there.
#pragma once

#include <string>
#include <vector>

#include "gateway/flow/parts.h"
#include "gateway/upstream/scanner.h"
#include "gateway/vault/apply.h"
#include "gateway/vault/placeholder.h"

namespace atl::gateway {

// What goes into one request. Wiped with it.
struct Injection {
  std::vector<vault::CredentialPtr> credentials;  // that it carries, each once
  std::vector<vault::TokenPtr> tokens;            // as of fetch_tokens(), of the first of them
  vault::Changes changes;
  std::string id;  // names them all with their versions, for the pools of connections; empty: none
  std::shared_ptr<const SecretPatterns> patterns;             // what must not come back; null: nothing
  std::shared_ptr<const net::TlsClientIdentity> certificate;  // to show to the upstream; null: none

  bool empty() const { return credentials.empty(); }
  // Lower-case names of the headers that it sets.
  std::vector<std::string> header_names() const;
};

// kDenied, word "credential_unusable".
Error unusable_credential(std::string_view name, std::string_view why);

// The bindings for this request, the most specific first. Valid until the next await.
std::vector<const vault::Binding*> find_bindings(Parts& parts, const Inbound& in, bool secure,
                                                 const http::RequestHead& request);

// Those that the bindings and the policy's decision name for a request. kDenied, word "credential_unusable",
// when one that is named is not there or cannot be used: a request that should carry a credential does not
// leave without it.
Result<std::vector<vault::CredentialPtr>> find_credentials(Parts& parts, const Inbound& in, bool secure,
                                                           const std::vector<const vault::Binding*>& found,
                                                           const policy::RequestDecision& decision);

// True when what the request may carry hangs on its path (vault::paths_matter).
bool paths_matter(Parts& parts, const Inbound& in, bool secure, const http::RequestHead& request);

// The tokens of those credentials that have one, in their order, and null for the others. Waits
// for a token endpoint when there is no good token.
async::Task<Result<std::vector<vault::TokenPtr>>> fetch_tokens(Parts& parts,
                                                               std::vector<vault::CredentialPtr> credentials);

// What credentials and the headers that rules set do to `request`, as it came from the sandbox with its
// authority made canonical. `body_sha256` as of vault::ApplyInput.
Result<Injection> make_injection(Parts& parts, const Inbound& in, bool secure,
                                 std::vector<vault::CredentialPtr> credentials,
                                 std::vector<vault::TokenPtr> tokens,
                                 const std::vector<policy::HeaderSet>& set_headers, std::string body_sha256,
                                 const http::RequestHead& request);

// The patterns of secrets that were used lately: making them costs more than a request.
class PatternCache {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kMostBytes = 64 << 20;  // larger ones are made for each request
  std::shared_ptr<const SecretPatterns> of(const std::string& id,
                                           const std::vector<vault::CredentialPtr>& credentials,
                                           const std::vector<vault::TokenPtr>& tokens);

  std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::shared_ptr<const SecretPatterns>> known_;
  std::size_t bytes_ = 0;  // of those
};

}  // namespace atl::gateway
