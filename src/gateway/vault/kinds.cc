// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/kinds.h"

#include <algorithm>

#include "base/text.h"
#include "gateway/vault/locked.h"
#include "http/json.h"
#include "net/tls/openssl.h"

namespace atl::gateway::vault {
namespace {

namespace json = boost::json;
using http::Fields;

constexpr std::size_t kMaxText = 2048;
constexpr std::size_t kMaxCertificates = 64 * 1024;
constexpr std::size_t kMaxRemoved = 16;
constexpr int kMaxJwtLifetime = 3600;

// Reads the fields of one kind; remembers which there are, so that others are refused.
class Reader {
 public:
  explicit Reader(const json::object& text) : fields_(text), text_(text) {}
  std::string need(std::string_view key, std::size_t max = kMaxText) {
    auto value = fields_.text(key, max);
    known_.emplace_back(key);
    if (!value || value->empty()) refuse(key, "is missing");
    return value.value_or("");
  }
  std::string may(std::string_view key) {
    known_.emplace_back(key);
    return fields_.text(key, kMaxText).value_or("");
  }
  std::string url(std::string_view key) {
    auto value = need(key);
    if (!value.starts_with("https://") || !valid_header_value(value)) refuse(key, "must be an https URL");
    return value;
  }
  int integer(std::string_view key, int fallback, int min, int max) {
    known_.emplace_back(key);
    return static_cast<int>(fields_.integer(key, min, max).value_or(fallback));
  }
  std::vector<std::string> texts(std::string_view key) {
    known_.emplace_back(key);
    return fields_.texts(key, kMaxRemoved).value_or(std::vector<std::string>());
  }
  json::object object(std::string_view key) {
    known_.emplace_back(key);
    auto inner = fields_.object(key);
    return inner ? inner->raw() : json::object();
  }
  void refuse(std::string_view key, std::string_view what) { fields_.refuse(key, what); }
  Result<void> status() {
    for (const auto& [key, value] : text_) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) refuse(key, "is not known");
    }
    return fields_.status();
  }

 private:
  Fields fields_;
  const json::object& text_;
  std::vector<std::string> known_;
};

std::string header_name(Reader& in, std::string_view key) {
  auto name = to_lower(in.need(key));
  static constexpr std::string_view kFraming[] = {
      "host", "content-length", "transfer-encoding", "connection", "te", "upgrade", "trailer", "keep-alive"};
  if (!valid_header_name(name)) in.refuse(key, "must be a header's name");
  if (std::find(std::begin(kFraming), std::end(kFraming), name) != std::end(kFraming)) {
    in.refuse(key, "is a header of the connection itself");
  }
  return name;
}

template <class Enum, std::size_t N>
Enum choice(Reader& in, std::string_view key, const std::pair<std::string_view, Enum> (&words)[N],
            std::string_view fallback) {
  auto word = in.may(key);
  if (word.empty()) word = fallback;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
  }
  in.refuse(key, "is none of the known words");
  return words[0].second;
}

using Grant = OAuthKind::Grant;
using ClientAuth = OAuthKind::ClientAuth;
constexpr std::pair<std::string_view, Grant> kGrants[] = {{"client_credentials", Grant::kClientCredentials},
                                                          {"authorization_code", Grant::kAuthorizationCode},
                                                          {"device_code", Grant::kDevice}};
constexpr std::pair<std::string_view, ClientAuth> kClientAuths[] = {
    {"basic", ClientAuth::kBasic}, {"body", ClientAuth::kBody}, {"none", ClientAuth::kNone}};

Kind read_oauth(Reader& in) {
  OAuthKind out;
  out.grant = choice(in, "grant", kGrants, "client_credentials");
  out.client_auth = choice(in, "client_auth", kClientAuths, "basic");
  out.token_url = in.url("token_url");
  out.client_id = in.need("client_id");
  out.scope = in.may("scope");
  out.audience = in.may("audience");
  out.resource = in.may("resource");
  if (out.grant == Grant::kAuthorizationCode) {
    out.authorize_url = in.url("authorize_url");
    out.redirect_uri = in.need("redirect_uri");
  }
  if (out.grant == Grant::kDevice) out.device_url = in.url("device_url");
  return out;
}

Kind read_header(Reader& in) {
  HeaderKind out{header_name(in, "name"), in.may("prefix")};
  if (!valid_header_value(out.prefix)) in.refuse("prefix", "must not have control characters");
  return out;
}

Kind read_basic(Reader& in) {
  BasicKind out{in.may("username")};
  if (out.username.find(':') != out.username.npos) in.refuse("username", "must not have a colon");
  return out;
}

Kind read_sigv4(Reader& in) {
  SigV4Kind out{in.need("access_key_id"), in.may("region"), in.may("service")};
  for (const auto* text : {&out.access_key_id, &out.region, &out.service}) {
    bool ok = std::all_of(text->begin(), text->end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
             c == '_';
    });
    if (!ok) in.refuse("access_key_id", "and region and service may have letters, digits, '-' and '_'");
  }
  return out;
}

Kind read_github(Reader& in) {
  GithubAppKind out{in.need("app_id"), in.need("installation_id"), in.may("api_url")};
  if (out.api_url.empty()) out.api_url = "https://api.github.com";
  if (!out.api_url.starts_with("https://") || out.api_url.ends_with('/')) {
    in.refuse("api_url", "must be an https URL without a slash at its end");
  }
  for (const auto* id : {&out.installation_id}) {
    if (!std::all_of(id->begin(), id->end(), [](char c) { return c >= '0' && c <= '9'; })) {
      in.refuse("installation_id", "must be a number");
    }
  }
  return out;
}

Kind read_jwt(Reader& in) {
  JwtKind out;
  out.algorithm = in.need("algorithm");
  static constexpr std::string_view kKnown[] = {"RS256", "ES256", "EdDSA", "HS256"};
  if (std::find(std::begin(kKnown), std::end(kKnown), out.algorithm) == std::end(kKnown)) {
    in.refuse("algorithm", "must be RS256, ES256, EdDSA or HS256");
  }
  out.key_id = in.may("key_id");
  out.claims = in.object("claims");
  out.lifetime_s = in.integer("lifetime_s", out.lifetime_s, 10, kMaxJwtLifetime);
  return out;
}

Kind read_kind(const std::string& type, Reader& in) {
  if (type == "plain") return PlainKind{};
  if (type == "bearer") return BearerKind{};
  if (type == "header") return read_header(in);
  if (type == "basic") return read_basic(in);
  if (type == "query") return QueryKind{in.need("key")};
  if (type == "aws_sigv4") return read_sigv4(in);
  if (type == "oauth2") return read_oauth(in);
  if (type == "tls_client") return TlsClientKind{in.need("certificate_chain", kMaxCertificates)};
  if (type == "github_app") return read_github(in);
  if (type == "jwt") return read_jwt(in);
  in.refuse("type", "is no kind of credential");
  return PlainKind{};
}

template <class T>
std::string_view word_of(T value, const auto& words) {
  for (const auto& [name, known] : words) {
    if (known == value) return name;
  }
  return "";
}

void put(json::object& out, std::string_view key, const std::string& value) {
  if (!value.empty()) out[key] = value;
}

struct Writer {
  json::object& out;
  void operator()(const PlainKind&) const {}
  void operator()(const BearerKind&) const {}
  void operator()(const HeaderKind& kind) const {
    put(out, "name", kind.name);
    put(out, "prefix", kind.prefix);
  }
  void operator()(const BasicKind& kind) const { put(out, "username", kind.username); }
  void operator()(const QueryKind& kind) const { put(out, "key", kind.key); }
  void operator()(const SigV4Kind& kind) const {
    put(out, "access_key_id", kind.access_key_id);
    put(out, "region", kind.region);
    put(out, "service", kind.service);
  }
  void operator()(const OAuthKind& kind) const {
    out["grant"] = word_of(kind.grant, kGrants);
    out["client_auth"] = word_of(kind.client_auth, kClientAuths);
    put(out, "token_url", kind.token_url);
    put(out, "authorize_url", kind.authorize_url);
    put(out, "redirect_uri", kind.redirect_uri);
    put(out, "device_url", kind.device_url);
    put(out, "client_id", kind.client_id);
    put(out, "scope", kind.scope);
    put(out, "audience", kind.audience);
    put(out, "resource", kind.resource);
  }
  void operator()(const TlsClientKind& kind) const { put(out, "certificate_chain", kind.certificate_chain); }
  void operator()(const GithubAppKind& kind) const {
    put(out, "app_id", kind.app_id);
    put(out, "installation_id", kind.installation_id);
    put(out, "api_url", kind.api_url);
  }
  void operator()(const JwtKind& kind) const {
    put(out, "algorithm", kind.algorithm);
    put(out, "key_id", kind.key_id);
    out["claims"] = kind.claims;
    out["lifetime_s"] = kind.lifetime_s;
  }
};

Error wrong(std::string_view what) {
  return make_error(Code::kInvalid, "the value {}", what).with_word("invalid_secret");
}

bool is_object(std::string_view secret) {
  boost::system::error_code bad;
  return secret.starts_with("{") && json::parse(secret, bad).is_object();
}

Result<void> check_private_key(std::string_view secret) {
  std::string text(secret);
  bool ok = net::read_private_key(text).ok();
  wipe(text);
  if (!ok) return wrong("is no private key in PEM, or an encrypted one");
  return success();
}

struct Checker {
  std::string_view secret;
  Result<void> operator()(const PlainKind&) const { return success(); }
  Result<void> operator()(const TlsClientKind&) const { return check_private_key(secret); }
  Result<void> operator()(const GithubAppKind&) const { return check_private_key(secret); }
  Result<void> operator()(const JwtKind& kind) const {
    if (kind.algorithm != "HS256") return check_private_key(secret);
    if (secret.size() < 32) return wrong("is shorter than the 32 bytes that HS256 needs");
    return success();
  }
  Result<void> operator()(const OAuthKind& kind) const {
    if (!is_object(secret))
      return wrong(R"(must be {"client_secret": ..., "refresh_token": ...}, each where there is one)");
    bool lacks = kind.client_auth != ClientAuth::kNone && secret_part(secret, "client_secret").empty();
    if (lacks) return wrong("has no client_secret, which client_auth asks for");
    return success();
  }
  Result<void> operator()(const SigV4Kind&) const {
    if (is_object(secret) && secret_part(secret, "secret_access_key").empty()) {
      return wrong("has no secret_access_key");
    }
    return success();
  }
  // Those that go into a request as they are.
  template <class Other>
  Result<void> operator()(const Other&) const {
    if (!valid_header_value(secret))
      return wrong("has a line break or another control character, which no request may carry");
    return success();
  }
};

bool is_searched(const Kind& kind) {
  const auto* jwt = std::get_if<JwtKind>(&kind);
  bool private_key = std::holds_alternative<TlsClientKind>(kind) ||
                     std::holds_alternative<GithubAppKind>(kind) ||
                     (jwt != nullptr && jwt->algorithm != "HS256");
  return !private_key;
}

}  // namespace

Result<Config> parse_config(const json::object& text) {
  Reader in(text);
  Config out;
  auto type = in.need("type");
  out.kind = read_kind(type, in);
  for (auto& name : in.texts("also_remove")) {
    if (!valid_header_name(name)) in.refuse("also_remove", "must have names of headers");
    out.also_remove.push_back(to_lower(name));
  }
  TRY_VOID(in.status());
  return out;
}

json::object write_config(const Config& config) {
  json::object out;
  out["type"] = kind_name(config.kind);
  std::visit(Writer{out}, config.kind);
  if (!config.also_remove.empty()) out["also_remove"] = json::value_from(config.also_remove);
  return out;
}

std::string_view kind_name(const Kind& kind) {
  static constexpr std::string_view kNames[] = {"plain",     "header", "bearer",     "basic",      "query",
                                                "aws_sigv4", "oauth2", "tls_client", "github_app", "jwt"};
  static_assert(std::size(kNames) == std::variant_size_v<Kind>);
  return kNames[kind.index()];
}

Result<void> check_secret(const Config& config, std::string_view secret) {
  if (secret.empty()) return wrong("is empty");
  if (is_searched(config.kind) && secret.size() > kMaxSearched)
    return make_error(Code::kTooLarge, "a secret that is no private key may have {} bytes", kMaxSearched);
  return std::visit(Checker{secret}, config.kind);
}

std::string secret_part(std::string_view secret, std::string_view part) {
  boost::system::error_code bad;
  auto value = json::parse(secret, bad);
  const auto* object = bad ? nullptr : value.if_object();
  const auto* found = object != nullptr ? object->if_contains(part) : nullptr;
  const auto* text = found != nullptr ? found->if_string() : nullptr;
  return text != nullptr ? std::string(*text) : std::string();
}

std::vector<std::string> places(const Kind& kind) {
  if (std::holds_alternative<PlainKind>(kind)) return {};
  if (std::holds_alternative<TlsClientKind>(kind)) return {"certificate"};
  if (const auto* header = std::get_if<HeaderKind>(&kind)) return {"header " + header->name};
  if (const auto* query = std::get_if<QueryKind>(&kind)) return {"query " + query->key};
  return {"header authorization"};
}

bool collide(const Kind& a, const Kind& b) {
  auto signs = [](const Kind& kind) { return std::holds_alternative<SigV4Kind>(kind); };
  auto asks = [](const Kind& kind) { return std::holds_alternative<QueryKind>(kind); };
  // What is signed includes the whole query.
  if ((signs(a) && asks(b)) || (asks(a) && signs(b))) return true;
  auto one = places(a), other = places(b);
  if (one.empty() || other.empty()) return true;
  return std::any_of(one.begin(), one.end(), [&other](const std::string& place) {
    return std::find(other.begin(), other.end(), place) != other.end();
  });
}

bool is_minted(const Kind& kind) {
  return std::holds_alternative<OAuthKind>(kind) || std::holds_alternative<GithubAppKind>(kind);
}

bool has_token(const Kind& kind) { return is_minted(kind) || std::holds_alternative<JwtKind>(kind); }

bool valid_header_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool valid_header_value(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
}

}  // namespace atl::gateway::vault
