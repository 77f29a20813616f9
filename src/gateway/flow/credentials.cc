// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/credentials.h"

#include <algorithm>

#include "base/bytes.h"
#include "gateway/vault/forms.h"

namespace atl::gateway {
namespace {

constexpr std::string_view kPlaceholderStart = "${e2b.";
constexpr std::string_view kSecretStart = "${e2b.secrets.";

vault::BindingRequest binding_facts(const Inbound& in, bool secure, const http::RequestHead& request) {
  return {in.sandbox->tenant, in.sandbox->id, in.sandbox->template_id, in.dialled.host,
          in.dialled.port,    secure,         request.method,          request.path()};
}

void add_once(std::vector<vault::CredentialPtr>& list, vault::CredentialPtr one) {
  bool there = std::any_of(list.begin(), list.end(),
                           [&](const vault::CredentialPtr& other) { return other->row.id == one->row.id; });
  if (!there) list.push_back(std::move(one));
}

// The text of a header that a rule sets, with the secrets that it names.
Result<Secret> expand(Parts& parts, const std::string& tenant, const policy::HeaderSet& header, bool secure,
                      std::vector<vault::CredentialPtr>& used) {
  std::string out;
  std::string_view rest = header.value;
  while (true) {
    std::size_t at = rest.find(kPlaceholderStart);
    out.append(rest.substr(0, at));
    if (at == std::string_view::npos) return Secret(std::move(out));
    rest.remove_prefix(at);
    std::size_t end = rest.find('}');
    if (!rest.starts_with(kSecretStart) || end == std::string_view::npos)
      return unusable_credential(header.name, "only ${e2b.secrets.NAME} can be filled in");
    if (!secure) return unusable_credential(header.name, "it would go over the network in clear text");
    std::string name(rest.substr(kSecretStart.size(), end - kSecretStart.size()));
    auto credential = parts.vault.use(tenant, name);
    if (!credential) return unusable_credential(name, credential.error().message());
    out.append((*credential)->secret.reveal());
    add_once(used, *credential);
    rest.remove_prefix(end + 1);
  }
}

void append(vault::Changes& to, vault::Changes from) {
  for (auto& one : from.headers) to.headers.push_back(std::move(one));
  for (auto& one : from.query) to.query.push_back(std::move(one));
  for (auto& one : from.remove_headers) to.remove_headers.push_back(std::move(one));
}

}  // namespace

Error unusable_credential(std::string_view name, std::string_view why) {
  return make_error(Code::kDenied, "the credential {} of this host cannot be used: {}", name, why)
      .with_word("credential_unusable")
      .with_hint("atoll secret list shows what there is; nothing was sent");
}

bool paths_matter(Parts& parts, const Inbound& in, bool secure, const http::RequestHead& request) {
  return vault::paths_matter(parts.vault.bindings(), binding_facts(in, secure, request));
}

std::vector<const vault::Binding*> find_bindings(Parts& parts, const Inbound& in, bool secure,
                                                 const http::RequestHead& request) {
  return vault::find(parts.vault.bindings(), binding_facts(in, secure, request));
}

Result<std::vector<vault::CredentialPtr>> find_credentials(Parts& parts, const Inbound& in, bool secure,
                                                           const std::vector<const vault::Binding*>& found,
                                                           const policy::RequestDecision& decision) {
  std::vector<vault::CredentialPtr> out;
  for (const vault::Binding* binding : found) {
    if (binding->by_placeholder) continue;
    auto credential = parts.vault.use(in.sandbox->tenant, binding->secret);
    if (!credential) return unusable_credential(binding->secret, credential.error().message());
    // Of those that set the same, the most specific one.
    bool taken = std::any_of(out.begin(), out.end(), [&](const vault::CredentialPtr& other) {
      return vault::collide(other->config.kind, (*credential)->config.kind);
    });
    if (!taken) add_once(out, *credential);
  }
  for (const std::string& name : decision.credentials) {
    auto credential = parts.vault.use(in.sandbox->tenant, name);
    if (!credential) return unusable_credential(name, credential.error().message());
    add_once(out, *credential);
  }
  for (const vault::CredentialPtr& credential : out) {
    bool clear = secure || std::any_of(found.begin(), found.end(), [&](const vault::Binding* binding) {
                   return binding->secret == credential->row.id && binding->cleartext;
                 });
    if (!clear)
      return unusable_credential(credential->row.name, "it would go over the network in clear text");
  }
  return out;
}

async::Task<Result<std::vector<vault::TokenPtr>>> fetch_tokens(
    Parts& parts, std::vector<vault::CredentialPtr> credentials) {
  std::vector<vault::TokenPtr> out;
  for (const vault::CredentialPtr& credential : credentials) {
    vault::TokenPtr token;
    if (vault::has_token(credential->config.kind)) {
      CO_TRY(token, co_await parts.minter.token(credential));
    }
    out.push_back(std::move(token));
  }
  co_return out;
}

std::vector<std::string> Injection::header_names() const {
  std::vector<std::string> out = changes.remove_headers;
  for (const vault::Setting& one : changes.headers) out.push_back(one.name);
  return out;
}

Result<Injection> make_injection(Parts& parts, const Inbound& in, bool secure,
                                 std::vector<vault::CredentialPtr> credentials,
                                 std::vector<vault::TokenPtr> tokens,
                                 const std::vector<policy::HeaderSet>& set_headers, std::string body_sha256,
                                 const http::RequestHead& request) {
  Injection out;
  for (std::size_t i = 0; i < credentials.size(); ++i) {
    const vault::Credential& credential = *credentials[i];
    vault::ApplyInput input{credential, request, tokens[i].get(), body_sha256, parts.clock.now()};
    TRY(vault::Changes changes, vault::apply(input));
    append(out.changes, std::move(changes));
    if (!std::holds_alternative<vault::TlsClientKind>(credential.config.kind)) continue;
    TRY(out.certificate, parts.identities.of(credential));
  }
  for (const policy::HeaderSet& header : set_headers) {
    TRY(Secret value, expand(parts, in.sandbox->tenant, header, secure, credentials));
    out.changes.headers.push_back({header.name, std::move(value)});
  }
  for (const vault::CredentialPtr& credential : credentials)
    out.id += fmt::format("{}@{} ", credential->row.id, credential->row.version);
  if (!credentials.empty()) out.patterns = parts.patterns.of(out.id, credentials, tokens);
  out.credentials = std::move(credentials);
  out.tokens = std::move(tokens);
  return out;
}

std::shared_ptr<const SecretPatterns> PatternCache::of(const std::string& id,
                                                       const std::vector<vault::CredentialPtr>& credentials,
                                                       const std::vector<vault::TokenPtr>& tokens) {
  std::string key = id;
  for (const vault::TokenPtr& token : tokens) {
    if (token) key += hex_encode(sha256(token->reveal()));  // each has patterns of its own
  }
  auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  std::vector<SecretPatterns::Pattern> patterns;
  for (std::size_t i = 0; i < credentials.size(); ++i) {
    const vault::Locked* token = i < tokens.size() ? tokens[i].get() : nullptr;
    for (Secret& form : vault::forms(*credentials[i], token))
      patterns.push_back({std::move(form), fmt::format("[{} of atoll]", credentials[i]->row.name)});
  }
  auto made = std::make_shared<const SecretPatterns>(patterns);
  if (made->bytes() > kMostBytes) return made;
  if (known_.size() >= kMost || bytes_ + made->bytes() > kMostBytes) {
    known_.clear();
    bytes_ = 0;
  }
  bytes_ += made->bytes();
  return known_[key] = std::move(made);
}

}  // namespace atl::gateway
