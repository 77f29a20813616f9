// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/placeholders.h"

#include <algorithm>

#include "base/text.h"

namespace atl::gateway {
namespace {

// The text that stands for this credential in a request; empty for kinds that are none, or a token.
std::string_view text_of(const vault::Credential& credential) {
  const vault::Kind& kind = credential.config.kind;
  bool text =
      std::holds_alternative<vault::PlainKind>(kind) || std::holds_alternative<vault::HeaderKind>(kind) ||
      std::holds_alternative<vault::BearerKind>(kind) || std::holds_alternative<vault::BasicKind>(kind) ||
      std::holds_alternative<vault::QueryKind>(kind);
  return text ? credential.secret.reveal() : std::string_view();
}

vault::BodyResolver::Form form_of(const http::RequestHead& request) {
  bool json = to_lower(request.headers.find("content-type").value_or("")).find("json") != std::string::npos;
  return json ? vault::BodyResolver::Form::kJson : vault::BodyResolver::Form::kText;
}

}  // namespace

// Elsewhere than in a declared place of a body the text is worthless, and may well stand in it: a model is
// told what a program printed.
bool Placeholders::searches_body() const {
  return std::any_of(all.begin(), all.end(),
                     [](const vault::Resolvable& one) { return !one.places.body.empty(); });
}

Result<Placeholders> find_placeholders(Parts& parts, const Inbound& in,
                                       const std::vector<const vault::Binding*>& found) {
  Placeholders out;
  for (const vault::Binding* binding : found) {
    if (!binding->by_placeholder) continue;
    auto credential = parts.vault.use(in.sandbox->tenant, binding->secret);
    if (!credential) return unusable_credential(binding->secret, credential.error().message());
    std::string_view value = text_of(**credential);
    if (value.empty() && !vault::is_minted((*credential)->config.kind))
      return unusable_credential((*credential)->row.name, "no text of its kind can stand for a placeholder");
    std::string text = vault::placeholder_of(parts.placeholder_root, in.sandbox->id, binding->secret);
    out.all.push_back({std::move(text), std::move(*credential), value, binding->places});
    out.bindings.push_back(binding->id);
  }
  out.tokens.resize(out.all.size());
  return out;
}

async::Task<Result<void>> fetch_values(Parts& parts, Placeholders& found) {
  for (std::size_t i = 0; i < found.all.size(); ++i) {
    vault::Resolvable& one = found.all[i];
    if (!vault::is_minted(one.credential->config.kind)) continue;
    CO_TRY(found.tokens[i], co_await parts.minter.token(one.credential));
    one.value = found.tokens[i]->reveal();
  }
  co_return success();
}

void add_placeholders(Parts& parts, const Placeholders& found, Injection& injection) {
  if (found.all.empty()) return;
  for (std::size_t i = 0; i < found.all.size(); ++i) {
    const vault::CredentialPtr& credential = found.all[i].credential;
    bool there = std::any_of(injection.credentials.begin(), injection.credentials.end(),
                             [&](const auto& other) { return other->row.id == credential->row.id; });
    if (there) continue;
    // Those that rules name have no token, and stand between.
    injection.tokens.resize(injection.credentials.size());
    injection.credentials.push_back(credential);
    injection.tokens.push_back(found.tokens[i]);
    injection.id += fmt::format("{}@{} ", credential->row.id, credential->row.version);
  }
  injection.patterns = parts.patterns.of(injection.id, injection.credentials, injection.tokens);
}

std::unique_ptr<vault::BodyResolver> make_body_resolver(const Placeholders& found,
                                                        const http::RequestHead& request) {
  if (!request.has_body || !found.searches_body()) return nullptr;
  return std::make_unique<vault::BodyResolver>(found.all, form_of(request));
}

Result<std::string> resolve_body(const Placeholders& found, const http::RequestHead& request,
                                 std::string_view body) {
  vault::BodyResolver resolver(found.all, form_of(request));
  std::string out;
  TRY_VOID(resolver.feed(body, out));
  TRY_VOID(resolver.finish(out));
  return out;
}

model::StringMap placeholder_variables(const vault::Vault& vault, const vault::Locked& root,
                                       const Sandbox& sandbox) {
  model::StringMap out;
  for (const vault::Binding& binding : vault.bindings()) {
    if (binding.variable.empty()) continue;
    if (!vault::is_for(binding, sandbox.tenant, sandbox.id, sandbox.template_id)) continue;
    out[binding.variable] = vault::placeholder_of(root, sandbox.id, binding.secret);
  }
  return out;
}

}  // namespace atl::gateway
