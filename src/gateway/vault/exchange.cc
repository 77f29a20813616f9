// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/exchange.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/random.h"
#include "base/text.h"
#include "gateway/vault/jwt.h"
#include "http/json.h"
#include "http/message.h"

namespace atl::gateway::vault {
namespace {

namespace json = boost::json;

constexpr std::int64_t kUnsaidLife = 600;  // of a token whose life the endpoint does not tell, in seconds
constexpr std::int64_t kLongestLife = 10LL * 365 * 86400;  // more is no number of seconds
constexpr int kGithubLife = 540;                           // GitHub takes ten minutes at most
constexpr int kGithubBackdate = 60;                        // its clock may be behind ours

const OAuthKind& oauth(const Credential& credential) { return std::get<OAuthKind>(credential.config.kind); }

// A form's body, built in place so that no copy of a secret is left behind.
class Form {
 public:
  Form& add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    auto encoded = http::percent_encode(value);
    std::string longer = fmt::format("{}{}{}={}", text_, text_.empty() ? "" : "&", name, encoded);
    wipe(encoded);
    wipe(text_);
    text_ = std::move(longer);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Adds who asks, as the endpoint wants it (RFC 6749 §2.3.1).
TokenRequest finish(const Credential& credential, const std::string& url, Form form) {
  const auto& kind = oauth(credential);
  TokenRequest out;
  out.url = url;
  auto add = [&out](std::string name, std::string value) {
    out.headers.emplace_back(std::move(name), Secret(std::move(value)));
  };
  add("accept", "application/json");
  add("content-type", "application/x-www-form-urlencoded");
  auto secret = secret_part(credential.secret.reveal(), "client_secret");
  if (kind.client_auth == OAuthKind::ClientAuth::kBasic && !secret.empty()) {
    Secret pair(fmt::format("{}:{}", http::percent_encode(kind.client_id), http::percent_encode(secret)));
    add("authorization", "Basic " + base64_encode(pair.reveal()));
  } else {
    form.add("client_id", kind.client_id);
    if (kind.client_auth == OAuthKind::ClientAuth::kBody) form.add("client_secret", secret);
  }
  wipe(secret);
  out.body = Secret(form.take());
  return out;
}

// A word of an error registry: it may be shown. Anything else could be an echo of a secret.
std::string error_word(const json::object& body) {
  const auto* value = body.if_contains("error");
  const auto* text = value != nullptr ? value->if_string() : nullptr;
  if (text == nullptr || text->size() > 40) return "";
  bool ok =
      std::all_of(text->begin(), text->end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  return ok ? std::string(*text) : "";
}

std::optional<json::object> parse_object(const Secret& body) {
  auto value = http::parse_json(body.reveal());
  if (!value.ok() || !value->is_object()) return std::nullopt;
  return std::move(value->as_object());
}

std::string text_of(const json::object& body, std::string_view key) {
  const auto* value = body.if_contains(key);
  const auto* text = value != nullptr ? value->if_string() : nullptr;
  return text != nullptr ? std::string(*text) : std::string();
}

// A number, also where it is sent as a text.
std::optional<std::int64_t> number_of(const json::object& body, std::string_view key) {
  const auto* value = body.if_contains(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    boost::system::error_code bad;
    auto number = value->to_number<std::int64_t>(bad);
    return bad ? std::nullopt : std::optional(number);
  }
  return parse_number<std::int64_t>(text_of(body, key));
}

Error refusal(int status, const std::string& word) {
  bool later = status >= 500 || status == 429 || status == 408;
  if (word.empty() || later) {
    auto code = later || status < 400 ? Code::kUnavailable : Code::kDenied;
    return make_error(code, "the token endpoint answered {}", status).with_word("token_endpoint_failed");
  }
  auto error = make_error(Code::kDenied, "the token endpoint answered {}: {}", status, word)
                   .with_word("oauth_" + word);
  if (word == "invalid_grant") return std::move(error).with_hint("authorize the credential again");
  return error;
}

WallTime expiry(const json::object& body, WallTime now) {
  if (auto at = parse_rfc3339(text_of(body, "expires_at")); at) return *at;  // GitHub
  auto life = std::clamp(number_of(body, "expires_in").value_or(kUnsaidLife), std::int64_t{0}, kLongestLife);
  return now + std::chrono::seconds(life);
}

}  // namespace

TokenRequest ask_by_client(const Credential& credential) {
  const auto& kind = oauth(credential);
  Form form;
  form.add("grant_type", "client_credentials").add("scope", kind.scope);
  form.add("audience", kind.audience).add("resource", kind.resource);
  return finish(credential, kind.token_url, std::move(form));
}

TokenRequest ask_by_refresh(const Credential& credential, std::string_view refresh_token) {
  const auto& kind = oauth(credential);
  Form form;
  form.add("grant_type", "refresh_token").add("refresh_token", refresh_token).add("resource", kind.resource);
  return finish(credential, kind.token_url, std::move(form));
}

TokenRequest ask_by_code(const Credential& credential, std::string_view code, std::string_view verifier) {
  const auto& kind = oauth(credential);
  Form form;
  form.add("grant_type", "authorization_code").add("code", code).add("redirect_uri", kind.redirect_uri);
  form.add("code_verifier", verifier).add("resource", kind.resource);
  return finish(credential, kind.token_url, std::move(form));
}

TokenRequest ask_for_device_code(const Credential& credential) {
  const auto& kind = oauth(credential);
  Form form;
  form.add("scope", kind.scope).add("audience", kind.audience).add("resource", kind.resource);
  return finish(credential, kind.device_url, std::move(form));
}

TokenRequest ask_by_device_code(const Credential& credential, std::string_view device_code) {
  Form form;
  form.add("grant_type", "urn:ietf:params:oauth:grant-type:device_code").add("device_code", device_code);
  return finish(credential, oauth(credential).token_url, std::move(form));
}

Result<TokenRequest> ask_github(const Credential& credential, WallTime now) {
  const auto& kind = std::get<GithubAppKind>(credential.config.kind);
  auto now_s = now.ms / 1000;
  json::object claims{{"iat", now_s - kGithubBackdate}, {"exp", now_s + kGithubLife}, {"iss", kind.app_id}};
  TRY(Secret jwt, sign_jwt({"RS256", ""}, claims, credential.secret.reveal()));
  TokenRequest out;
  out.url = fmt::format("{}/app/installations/{}/access_tokens", kind.api_url, kind.installation_id);
  out.headers.emplace_back("authorization", Secret("Bearer " + jwt.reveal()));
  out.headers.emplace_back("accept", Secret("application/vnd.github+json"));
  out.headers.emplace_back("user-agent", Secret("atoll-gateway"));  // GitHub refuses requests without one
  return out;
}

Result<Tokens> sign_own(const Credential& credential, WallTime now) {
  const auto& kind = std::get<JwtKind>(credential.config.kind);
  json::object claims = kind.claims;
  auto now_s = now.ms / 1000;
  claims["iat"] = now_s;
  claims["exp"] = now_s + kind.lifetime_s;
  claims["jti"] = random_hex(16);
  TRY(Secret token, sign_jwt({kind.algorithm, kind.key_id}, claims, credential.secret.reveal()));
  return Tokens{std::move(token), Secret(), now + Millis(kind.lifetime_s * std::int64_t{1000})};
}

Result<Tokens> read_tokens(const TokenAnswer& answer, WallTime now) {
  auto body = parse_object(answer.body);
  if (answer.status < 200 || answer.status > 299 || !body)
    return refusal(answer.status, body ? error_word(*body) : "");
  // Some endpoints refuse with 200.
  if (body->contains("error")) return refusal(400, error_word(*body));
  Tokens out;
  out.access = Secret(text_of(*body, body->contains("access_token") ? "access_token" : "token"));
  out.refresh = Secret(text_of(*body, "refresh_token"));
  out.expires = expiry(*body, now);
  auto type = text_of(*body, "token_type");
  bool usable = !out.access.empty() && valid_header_value(out.access.reveal()) &&
                (type.empty() || equals_ignore_case(type, "bearer"));
  if (usable) return out;
  return make_error(Code::kUnavailable, "the token endpoint answered without a bearer token")
      .with_word("token_endpoint_failed");
}

Result<DeviceCode> read_device_code(const TokenAnswer& answer, WallTime now) {
  auto body = parse_object(answer.body);
  if (answer.status < 200 || answer.status > 299 || !body)
    return refusal(answer.status, body ? error_word(*body) : "");
  DeviceCode out;
  out.device_code = Secret(text_of(*body, "device_code"));
  out.user_code = printable(text_of(*body, "user_code"));
  out.verification_uri = printable(text_of(*body, "verification_uri"));
  out.interval_s = static_cast<int>(
      std::clamp(number_of(*body, "interval").value_or(5), std::int64_t{1}, std::int64_t{60}));
  out.expires = expiry(*body, now);
  if (!out.device_code.empty() && !out.user_code.empty() && out.verification_uri.starts_with("https://"))
    return out;
  return make_error(Code::kUnavailable, "the device endpoint answered without a code")
      .with_word("token_endpoint_failed");
}

std::string authorize_url(const OAuthKind& kind, std::string_view state, std::string_view verifier) {
  Form form;
  form.add("response_type", "code").add("client_id", kind.client_id).add("redirect_uri", kind.redirect_uri);
  form.add("scope", kind.scope).add("state", state).add("code_challenge", base64url_encode(sha256(verifier)));
  form.add("code_challenge_method", "S256").add("resource", kind.resource).add("audience", kind.audience);
  bool has_query = kind.authorize_url.find('?') != kind.authorize_url.npos;
  return fmt::format("{}{}{}", kind.authorize_url, has_query ? '&' : '?', form.take());
}

Locked pack(const Tokens& tokens) {
  json::object out{{"access", tokens.access.reveal()},
                   {"refresh", tokens.refresh.reveal()},
                   {"expires", tokens.expires.ms}};
  std::string text = json::serialize(out);
  return Locked::take(text);
}

Result<Tokens> unpack(const Locked& packed) {
  auto value = http::parse_json(packed.reveal());
  if (!value.ok() || !value->is_object()) return make_error(Code::kCorrupt, "stored tokens cannot be read");
  const auto& body = value->as_object();
  return Tokens{Secret(text_of(body, "access")),
                Secret(text_of(body, "refresh")),
                {number_of(body, "expires").value_or(0)}};
}

}  // namespace atl::gateway::vault
