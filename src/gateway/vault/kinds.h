// SPDX-License-Identifier: Apache-2.0
//
// What a credential is: its kind with the parts that are no secret. The secret itself is apart (vault.h).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include "base/result.h"

namespace atl::gateway::vault {

// A text without meaning of its own; policies put it into headers (`${e2b.secrets.NAME}`). What POST /secrets
// of the E2B API makes.
struct PlainKind {};
// `name: <prefix><secret>`
struct HeaderKind {
  std::string name;  // lower case
  std::string prefix;
};
// `authorization: Bearer <secret>`
struct BearerKind {};
// `authorization: Basic base64(username:<secret>)`
struct BasicKind {
  std::string username;
};
// `?key=<secret>`
struct QueryKind {
  std::string key;
};
// AWS Signature Version 4. Region and service, where empty, are those that the request was signed for inside.
// Secret: the secret access key, or {"secret_access_key", "session_token"}.
struct SigV4Kind {
  std::string access_key_id;
  std::string region;
  std::string service;
};
// OAuth 2. Secret: {"client_secret"?, "refresh_token"?}; refresh tokens that come later are kept beside it.
struct OAuthKind {
  enum class Grant : std::uint8_t { kAuthorizationCode, kClientCredentials, kDevice };
  enum class ClientAuth : std::uint8_t {
    kBasic,
    kBody,
    kNone
  };  // how the client secret goes to the endpoint
  Grant grant = Grant::kClientCredentials;
  std::string token_url;
  std::string authorize_url;  // kAuthorizationCode
  std::string redirect_uri;   // kAuthorizationCode
  std::string device_url;     // kDevice
  std::string client_id;
  std::string scope;
  std::string audience;
  std::string resource;  // RFC 8707, in both requests
  ClientAuth client_auth = ClientAuth::kBasic;
};
// A client certificate for mutual TLS. Secret: its private key in PEM.
struct TlsClientKind {
  std::string certificate_chain;  // PEM
};
// A GitHub App's installation. Secret: the app's private key in PEM.
struct GithubAppKind {
  std::string app_id;
  std::string installation_id;
  std::string api_url;  // "https://api.github.com"
};
// `authorization: Bearer <JWT>`, signed here and used for half its life. Secret: a private key in PEM, or the
// key of HS256.
struct JwtKind {
  std::string algorithm;  // "RS256", "ES256", "EdDSA", "HS256"
  std::string key_id;
  boost::json::object claims;  // iat, exp and jti are added
  int lifetime_s = 300;
};

// One of them.
using Kind = std::variant<PlainKind, HeaderKind, BearerKind, BasicKind, QueryKind, SigV4Kind, OAuthKind,
                          TlsClientKind, GithubAppKind, JwtKind>;

// The kind, and what all kinds have.
struct Config {
  Kind kind;
  // Headers of the request that are removed too, when this credential goes in; lower case. `authorization`
  // and `proxy-authorization` always are.
  std::vector<std::string> also_remove;
};

// {"type": "header", "name": "x-api-key"} and so on. Unknown fields are refused. kInvalid names the field.
Result<Config> parse_config(const boost::json::object& text);
boost::json::object write_config(const Config& config);
std::string_view kind_name(const Kind& kind);  // "aws_sigv4"

// Of a secret that is no private key: it goes into requests, and answers are searched for it in all forms,
// which take five hundred times its size.
inline constexpr std::size_t kMaxSearched = 8 * 1024;
// Whether `secret` can be one of this kind; kInvalid says what it lacks, never what it is; kTooLarge above
// kMaxSearched.
Result<void> check_secret(const Config& config, std::string_view secret);
// One part of a secret that is a JSON object; empty when it has no such part.
std::string secret_part(std::string_view secret, std::string_view part);

// What a credential of this kind sets in a request: "header x-api-key", "query key", "certificate"; nothing
// for one that is only named by header rules.
std::vector<std::string> places(const Kind& kind);
// True when both would set the same, when one would break the signature of the other, or when one says not
// what it sets.
bool collide(const Kind& a, const Kind& b);

// True when the credential is exchanged at an endpoint for a token that lasts a while (minter.h).
bool is_minted(const Kind& kind);
// True when a token goes into a request in the secret's place: one that is minted, or a JWT.
bool has_token(const Kind& kind);

// A header's name as RFC 9110 §5.1 has it.
bool valid_header_name(std::string_view name);
// No control characters: what may be put into a header or a request line.
bool valid_header_value(std::string_view value);

}  // namespace atl::gateway::vault
