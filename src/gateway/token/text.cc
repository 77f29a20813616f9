// SPDX-License-Identifier: Apache-2.0
#include "gateway/token/text.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/token/caveat.h"

namespace atl::gateway::token {
namespace {

constexpr std::size_t kBits = 32;
constexpr std::size_t kId = 16;
constexpr std::size_t kSignature = 32;
constexpr std::string_view kProtocols = "sec-websocket-protocol";

Error malformed() {
  return make_error(Code::kUnauthenticated, "this is no sandbox token").with_word("token_malformed");
}

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &size);
  return {reinterpret_cast<char*>(out.data()), size};
}

bool looks_like_token(std::string_view text) {
  return text.starts_with(kFullPrefix) || text.starts_with(kNarrowPrefix);
}
bool has_token(std::string_view text) {
  return text.find(kFullPrefix) != text.npos || text.find(kNarrowPrefix) != text.npos;
}

// "Bearer x" or "Basic y" without its first word, when that is `scheme`.
std::optional<std::string_view> after_scheme(std::string_view value, std::string_view scheme) {
  value = trim(value);
  auto space = value.find(' ');
  if (space == value.npos || !equals_ignore_case(value.substr(0, space), scheme)) return std::nullopt;
  return trim(value.substr(space));
}

// What a header says, also what Basic hides.
std::string opened(std::string_view value) {
  auto basic = after_scheme(value, "basic");
  auto pair = basic ? base64_decode(*basic) : std::nullopt;
  return pair ? *pair : std::string();
}

std::optional<Secret> token_of(const http::Header& header) {
  std::string_view value = header.value;
  if (header.name == "authorization" || header.name == "proxy-authorization") {
    if (auto bearer = after_scheme(value, "bearer"); bearer && looks_like_token(*bearer))
      return Secret(std::string(*bearer));
    auto pair = opened(value);
    auto colon = pair.find(':');
    auto password = colon == pair.npos ? std::string_view() : std::string_view(pair).substr(colon + 1);
    if (looks_like_token(password)) return Secret(std::string(password));
  }
  if (header.name == "x-api-key" && looks_like_token(trim(value))) return Secret(std::string(trim(value)));
  if (header.name != kProtocols) return std::nullopt;
  for (auto item : split(value, ',')) {
    if (looks_like_token(trim(item))) return Secret(std::string(trim(item)));
  }
  return std::nullopt;
}

}  // namespace

std::string sign_caveat(std::string_view key, std::string_view caveat) { return hmac(key, caveat); }

Secret write_full(std::string_view bits) {
  return Secret(fmt::format("{}{}", kFullPrefix, base64url_encode(bits)));
}

Result<Parts> read_token(std::string_view text) {
  if (text.size() > kMaxToken || !looks_like_token(text)) return malformed();
  auto rest = text.substr(kFullPrefix.size());
  Parts out;
  if (text.starts_with(kFullPrefix)) {
    auto bits = base64url_decode(rest);
    if (!bits || bits->size() != kBits) return malformed();
    out.id = hmac(*bits, "atoll token id").substr(0, kId);
    out.signature = Secret(hmac(*bits, "atoll token chain"));
    out.bits = Secret(std::move(*bits));
    return out;
  }
  auto parts = split(rest, '.');
  if (parts.size() < 3 || parts.size() > kMaxCaveats + 2) return malformed();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto bytes = base64url_decode(parts[i]);
    bool last = i + 1 == parts.size();
    if (!bytes || (i == 0 && bytes->size() != kId) || (last && bytes->size() != kSignature))
      return malformed();
    if (i == 0) {
      out.id = std::move(*bytes);
    } else if (last) {
      out.signature = Secret(std::move(*bytes));
    } else {
      out.caveats.push_back(std::move(*bytes));
    }
  }
  return out;
}

Result<Secret> narrow(std::string_view text, std::string_view caveat) {
  TRY(Parts parts, read_token(text));
  auto parsed = parse_caveat(caveat);
  if (!parsed.ok()) return std::move(parsed).error();
  if (parts.caveats.size() == kMaxCaveats) {
    return make_error(Code::kInvalid, "a token can be narrowed {} times", kMaxCaveats);
  }
  std::string out = fmt::format("{}{}", kNarrowPrefix, base64url_encode(parts.id));
  for (const auto& one : parts.caveats) out += "." + base64url_encode(one);
  out += "." + base64url_encode(caveat);
  out += "." + base64url_encode(sign_caveat(parts.signature.reveal(), caveat));
  if (out.size() > kMaxToken)
    return make_error(Code::kInvalid, "the narrowed token is longer than {} bytes", kMaxToken);
  return Secret(std::move(out));
}

std::optional<Secret> find_token(const http::Headers& headers) {
  for (const auto& header : headers) {
    if (auto token = token_of(header); token) return token;
  }
  return std::nullopt;
}

void remove_tokens(http::Headers& headers) {
  http::Headers kept;
  for (const auto& header : headers) {
    if (!has_token(header.value) && !has_token(opened(header.value))) {
      kept.add(header.name, header.value);
      continue;
    }
    if (header.name != kProtocols) continue;
    std::string items;
    for (auto item : split(header.value, ',')) {
      if (!has_token(item)) items += fmt::format("{}{}", items.empty() ? "" : ", ", trim(item));
    }
    if (!items.empty()) kept.add(header.name, items);
  }
  headers = std::move(kept);
}

}  // namespace atl::gateway::token
