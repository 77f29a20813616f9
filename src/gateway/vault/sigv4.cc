// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/vault/locked.h"
#include "http/message.h"

namespace atl::gateway::vault {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using Sorted = std::multimap<std::string, std::string>;  // those of one name stay in their order

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &size);
  return {reinterpret_cast<char*>(out.data()), size};
}

// AWS wants the path encoded once more, except by S3, which keeps it as it is.
std::string canonical_path(const SigV4Request& request, std::string_view service) {
  std::string path = request.path.empty() ? "/" : request.path;
  if (service == "s3" || service == "s3express") return path;
  std::string out;
  bool first = true;
  for (auto segment : split(path, '/')) {
    if (!first) out += '/';
    first = false;
    out += http::percent_encode(segment);
  }
  return out;
}

// Decoded and encoded again, so that there is one spelling; sorted by name, then value.
std::string canonical_query(std::string_view query) {
  Pairs pairs;
  if (!query.empty()) {
    for (auto part : split(query, '&')) {
      auto equals = part.find('=');
      auto spelled = [](std::string_view text) {
        auto decoded = http::percent_decode(text);
        return http::percent_encode(decoded ? *decoded : std::string(text));
      };
      auto name = part.substr(0, equals);
      auto value = equals == part.npos ? std::string_view() : part.substr(equals + 1);
      pairs.emplace_back(spelled(name), spelled(value));
    }
  }
  std::sort(pairs.begin(), pairs.end());
  std::string out;
  for (const auto& [name, value] : pairs) out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, value);
  return out;
}

// Trimmed, and runs of spaces made one.
std::string canonical_value(std::string_view value) {
  std::string out;
  for (char c : trim(value)) {
    if (c == ' ' && out.ends_with(' ')) continue;
    out += c;
  }
  return out;
}

std::string signed_names(const Sorted& headers) {
  std::string out;
  std::string_view last;
  for (const auto& [name, value] : headers) {
    if (name == last) continue;
    out += fmt::format("{}{}", out.empty() ? "" : ";", name);
    last = name;
  }
  return out;
}

std::string canonical_headers(const Sorted& headers) {
  std::string out;
  std::string_view last;
  for (const auto& [name, value] : headers) {
    if (!out.empty() && name == last) {
      out.back() = ',';  // the same name again: one line
      out += canonical_value(value) + "\n";
    } else {
      out += fmt::format("{}:{}\n", name, canonical_value(value));
    }
    last = name;
  }
  return out;
}

std::string signing_key(std::string_view secret_key, std::string_view date, const SigV4Scope& scope) {
  std::string start = fmt::format("AWS4{}", secret_key);
  std::string key = hmac(start, date);
  wipe(start);
  for (auto part :
       {std::string_view(scope.region), std::string_view(scope.service), std::string_view("aws4_request")}) {
    std::string next = hmac(key, part);
    wipe(key);
    key = std::move(next);
  }
  return key;
}

}  // namespace

std::string sigv4_time(WallTime now) {
  auto text = format_rfc3339(now);  // 2015-08-30T12:36:00.000Z
  std::string out;
  for (char c : text.substr(0, 19)) {
    if (c != '-' && c != ':') out += c;
  }
  return out + "Z";
}

std::string sigv4_authorization(const SigV4Request& request, const SigV4Scope& scope,
                                std::string_view secret_key) {
  auto time = sigv4_time(scope.now);
  auto date = time.substr(0, 8);
  Sorted headers(request.headers.begin(), request.headers.end());
  headers.emplace("host", request.host);
  auto names = signed_names(headers);
  auto canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, canonical_path(request, scope.service),
                  canonical_query(request.query), canonical_headers(headers), names, request.payload_hash);
  auto place = fmt::format("{}/{}/{}/aws4_request", date, scope.region, scope.service);
  auto to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, place, hex_encode(sha256(canonical)));
  std::string key = signing_key(secret_key, date, scope);
  auto signature = hex_encode(hmac(key, to_sign));
  wipe(key);
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", scope.access_key_id,
                     place, names, signature);
}

Result<SigV4Place> sigv4_place(std::string_view authorization) {
  constexpr std::string_view kMark = "Credential=";
  auto at = authorization.find(kMark);
  if (at != authorization.npos) authorization.remove_prefix(at + kMark.size());
  auto parts = split(authorization.substr(0, authorization.find_first_of(", ")), '/');
  auto is_word = [](std::string_view text) {
    return !text.empty() && text.size() <= 64 &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == text.npos;
  };
  bool ok = parts.size() == 5 && parts[4] == "aws4_request" && is_word(parts[2]) && is_word(parts[3]);
  if (ok) return SigV4Place{std::string(parts[2]), std::string(parts[3])};
  return make_error(Code::kInvalid,
                    "the request tells no AWS region and service: it is not signed with version 4")
      .with_word("aws_scope_missing")
      .with_hint("give the credential a region and a service, or sign inside with any key");
}

}  // namespace atl::gateway::vault
