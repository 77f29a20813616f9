// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/apply.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/vault/sigv4.h"

namespace atl::gateway::vault {
namespace {

namespace json = boost::json;

constexpr std::string_view kAuthorization = "authorization";
constexpr std::string_view kPayloadHash = "x-amz-content-sha256";
constexpr std::string_view kUnsigned = "UNSIGNED-PAYLOAD";
constexpr std::string_view kUnsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

Changes one_header(std::string_view name, std::string value) {
  Changes out;
  out.headers.push_back({std::string(name), Secret(std::move(value))});
  return out;
}

bool is_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_s3(std::string_view service) {
  return service == "s3" || service == "s3express" || service == "s3-object-lambda";
}

// A request that carries its signature in the query has it there twice with ours.
bool is_presigned(const http::RequestHead& request) {
  return to_lower(request.query()).find("x-amz-signature=") != std::string::npos;
}

Result<SigV4Place> place_of(const SigV4Kind& kind, const http::RequestHead& request) {
  if (!kind.region.empty() && !kind.service.empty()) return SigV4Place{kind.region, kind.service};
  TRY(SigV4Place told, sigv4_place(request.headers.find(kAuthorization).value_or("")));
  if (!kind.region.empty()) told.region = kind.region;
  if (!kind.service.empty()) told.service = kind.service;
  return told;
}

// What stands for the body in the signature. docs/decisions/0117-credentials.md says why so.
Result<std::string> payload_hash(const ApplyInput& input, std::string_view service) {
  auto told = input.request.headers.find(kPayloadHash).value_or("");
  if (told.starts_with("STREAMING-") && told != kUnsignedTrailer) {
    return make_error(Code::kInvalid,
                      "the body is signed in chunks with a key that the service does not know")
        .with_word("aws_chunked_signature")
        .with_hint(
            "let the client send an unsigned or a whole payload: for the AWS CLI and SDKs "
            "AWS_REQUEST_CHECKSUM_CALCULATION=when_required and https");
  }
  if (is_hash(told) || told == kUnsignedTrailer) return std::string(told);
  if (is_hash(input.body_sha256)) return input.body_sha256;
  if (!input.request.has_body) return hex_encode(sha256(""));
  if (is_s3(service)) return std::string(kUnsigned);
  return make_error(Code::kInternal, "a request to AWS was to be signed without the hash of its body");
}

Result<Changes> apply_sigv4(const SigV4Kind& kind, const ApplyInput& input) {
  if (is_presigned(input.request)) {
    return make_error(Code::kInvalid, "the request is signed in its query, and would be signed twice")
        .with_word("aws_presigned")
        .with_hint("sign in the authorization header");
  }
  TRY(SigV4Place place, place_of(kind, input.request));
  TRY(std::string hash, payload_hash(input, place.service));
  std::string_view value = input.credential.secret.reveal();
  std::string key = value.starts_with("{") ? secret_part(value, "secret_access_key") : std::string(value);
  std::string session = value.starts_with("{") ? secret_part(value, "session_token") : std::string();

  SigV4Request request{input.request.method,
                       input.request.authority,
                       std::string(input.request.path()),
                       std::string(input.request.query()),
                       {},
                       hash};
  Changes out;
  auto set = [&](std::string name, const std::string& text) {
    request.headers.emplace_back(name, text);
    out.headers.push_back({std::move(name), Secret(text)});
  };
  set("x-amz-date", sigv4_time(input.now));
  if (is_s3(place.service)) set(std::string(kPayloadHash), hash);
  if (!session.empty()) set("x-amz-security-token", session);
  // The other headers of AWS say what to do; S3 wants all of them signed.
  for (const auto& header : input.request.headers) {
    bool ours =
        header.name == "x-amz-date" || header.name == kPayloadHash || header.name == "x-amz-security-token";
    bool counts = (header.name.starts_with("x-amz-") && !ours) || header.name == "content-type" ||
                  header.name == "content-md5";
    if (counts) request.headers.emplace_back(header.name, header.value);
  }
  SigV4Scope scope{kind.access_key_id, place.region, place.service, input.now};
  auto authorization = sigv4_authorization(request, scope, key);
  wipe(key);
  wipe(session);
  out.headers.push_back({std::string(kAuthorization), Secret(std::move(authorization))});
  out.remove_headers = {"x-amz-security-token", "x-amz-date", "date"};
  return out;
}

struct Applier {
  const ApplyInput& input;
  std::string_view secret = input.credential.secret.reveal();

  Result<Changes> operator()(const PlainKind&) const {
    return make_error(Code::kInvalid, "the secret '{}' says not how it goes into a request",
                      input.credential.row.name)
        .with_word("credential_kind")
        .with_hint("name it in a rule of the policy, or set it again with a kind");
  }
  Result<Changes> operator()(const HeaderKind& kind) const {
    return one_header(kind.name, fmt::format("{}{}", kind.prefix, secret));
  }
  Result<Changes> operator()(const BearerKind&) const {
    return one_header(kAuthorization, fmt::format("Bearer {}", secret));
  }
  Result<Changes> operator()(const BasicKind& kind) const {
    Secret pair(fmt::format("{}:{}", kind.username, secret));
    return one_header(kAuthorization, fmt::format("Basic {}", base64_encode(pair.reveal())));
  }
  Result<Changes> operator()(const QueryKind& kind) const {
    Changes out;
    out.query.push_back({kind.key, Secret(std::string(secret))});
    return out;
  }
  Result<Changes> operator()(const SigV4Kind& kind) const { return apply_sigv4(kind, input); }
  Result<Changes> operator()(const JwtKind&) const { return minted(); }
  Result<Changes> operator()(const TlsClientKind&) const { return Changes{}; }  // in the handshake
  Result<Changes> operator()(const OAuthKind&) const { return minted(); }
  // As GitHub's git endpoints also take it; the REST API takes both.
  Result<Changes> operator()(const GithubAppKind&) const {
    if (!input.request.authority.starts_with("github.")) return minted();
    TRY(std::string_view token, need_token());
    Secret pair(fmt::format("x-access-token:{}", token));
    return one_header(kAuthorization, fmt::format("Basic {}", base64_encode(pair.reveal())));
  }
  Result<std::string_view> need_token() const {
    if (input.token != nullptr && !input.token->empty()) return input.token->reveal();
    return make_error(Code::kInternal, "a token was to be used before there was one");
  }
  Result<Changes> minted() const {
    TRY(std::string_view token, need_token());
    return one_header(kAuthorization, fmt::format("Bearer {}", token));
  }
};

// Servers that hand headers on as variables see these as one.
std::string spelling(std::string_view name) {
  auto out = to_lower(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::vector<std::string> doomed_headers(const Changes& changes) {
  std::vector<std::string> out;
  for (const auto& setting : changes.headers) out.push_back(spelling(setting.name));
  for (const auto& name : changes.remove_headers) out.push_back(spelling(name));
  return out;
}

bool holds(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), spelling(name)) != list.end();
}

void remove_headers(http::Headers& headers, const std::vector<std::string>& doomed) {
  std::vector<std::string> found;
  for (const auto& header : headers) {
    if (holds(doomed, header.name)) found.push_back(header.name);
  }
  for (const auto& name : found) headers.remove(name);
}

// "close, X-Api-Key" without the names that are set.
void clean_list(http::Headers& headers, std::string_view list, const std::vector<std::string>& doomed) {
  std::string kept;
  bool changed = false;
  for (const auto& header : headers) {
    if (header.name != list) continue;
    for (auto token : split(header.value, ',')) {
      token = trim(token);
      if (token.empty() || holds(doomed, token)) {
        changed = true;
      } else {
        kept += fmt::format("{}{}", kept.empty() ? "" : ", ", token);
      }
    }
  }
  if (!changed) return;
  headers.remove(list);
  if (!kept.empty()) headers.add(std::string(list), kept);
}

bool is_key(std::string_view spelled, std::string_view key) {
  auto decoded = http::percent_decode(spelled, http::Plus::kSpace);
  return equals_ignore_case(decoded ? *decoded : std::string(spelled), key);
}

void set_query(http::RequestHead& request, const std::vector<Setting>& settings) {
  if (settings.empty()) return;
  std::string kept;
  auto query = request.query();
  if (!query.empty()) {
    // ';' separates too, for servers that follow the older advice of HTML 4.01 B.2.2.
    for (std::size_t at = 0; at <= query.size();) {
      auto end = std::min(query.find_first_of("&;", at), query.size());
      auto part = query.substr(at, end - at);
      auto name = part.substr(0, part.find('='));
      bool ours = std::any_of(settings.begin(), settings.end(),
                              [&](const Setting& one) { return is_key(name, one.name); });
      if (!ours && !part.empty()) kept += fmt::format("{}{}", kept.empty() ? "" : "&", part);
      at = end + 1;
    }
  }
  for (const auto& one : settings) {
    kept += fmt::format("{}{}={}", kept.empty() ? "" : "&", http::percent_encode(one.name),
                        http::percent_encode(one.value.reveal()));
  }
  std::string target = fmt::format("{}?{}", request.path(), kept);
  wipe(kept);
  request.target = std::move(target);
}

}  // namespace

Result<Changes> apply(const ApplyInput& input) {
  TRY(Changes out, std::visit(Applier{input}, input.credential.config.kind));
  for (const auto& setting : out.headers) {
    if (!valid_header_value(setting.value.reveal())) {
      return make_error(Code::kInvalid, "the secret '{}' has a control character, which no header may carry",
                        input.credential.row.name)
          .with_word("invalid_secret");
    }
  }
  for (const auto& name : input.credential.config.also_remove) out.remove_headers.push_back(name);
  for (const char* name : {"authorization", "proxy-authorization"}) out.remove_headers.emplace_back(name);
  return out;
}

bool needs_body_hash(const Credential& credential, const http::RequestHead& request) {
  const auto* kind = std::get_if<SigV4Kind>(&credential.config.kind);
  if (kind == nullptr || !request.has_body) return false;
  if (is_hash(request.headers.find(kPayloadHash).value_or(""))) return false;
  auto place = place_of(*kind, request);
  return place.ok() && !is_s3(place->service);
}

Result<void> inject(http::RequestHead& request, const Changes& changes) {
  auto doomed = doomed_headers(changes);
  for (const auto& header : request.headers) {
    if (header.name != "trailer") continue;
    for (auto token : split(header.value, ',')) {
      if (!holds(doomed, trim(token))) continue;
      return make_error(Code::kDenied, "the request announces the trailer '{}', which the gateway sets",
                        printable(trim(token)))
          .with_word("credential_in_trailer");
    }
  }
  remove_headers(request.headers, doomed);
  clean_list(request.headers, "connection", doomed);
  for (const auto& one : changes.headers) request.headers.add(one.name, one.value.reveal());
  set_query(request, changes.query);
  return success();
}

}  // namespace atl::gateway::vault
