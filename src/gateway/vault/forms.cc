// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/forms.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "http/message.h"

namespace atl::gateway::vault {
namespace {

void add(std::vector<Secret>& out, std::string text) {
  bool known =
      std::any_of(out.begin(), out.end(), [&text](const Secret& one) { return one.reveal() == text; });
  if (text.size() >= kShortestForm && !known) {
    out.emplace_back(std::move(text));
  } else {
    wipe(text);
  }
}

std::string lower_escapes(const std::string& text) {
  std::string out = text;
  for (std::size_t i = 0; i + 2 < out.size(); ++i) {
    if (out[i] != '%') continue;
    for (auto* c : {&out[i + 1], &out[i + 2]}) {
      if (*c >= 'A' && *c <= 'F') *c = static_cast<char>(*c - 'A' + 'a');
    }
  }
  return out;
}

std::string json_inner(std::string_view text) {
  auto quoted = json_quote(text);
  return quoted.substr(1, quoted.size() - 2);
}

// JSON allows to escape a slash, and some do.
std::string with_escaped_slashes(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '/') out += '\\';
    out += c;
  }
  return out;
}

// The characters of base64 that stand for bits of `text` alone, when `before` bytes stand before it.
std::string base64_core(std::string_view text, std::size_t before) {
  std::string padded(before, '\0');
  padded += text;
  auto encoded = base64_encode(padded, Padding::kNone);
  std::size_t first = (before * 8 + 5) / 6;    // the character after the last with bits of what is before
  std::size_t last = (padded.size() * 8) / 6;  // the character that has bits of what is after
  wipe(padded);
  std::string out = encoded.substr(first, last - first);
  wipe(encoded);
  return out;
}

std::string url_alphabet(std::string text) {
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

void add_all(std::vector<Secret>& out, std::string_view text) {
  for (auto& form : forms(text)) {
    std::string copy = form.reveal();
    add(out, std::move(copy));
  }
}

struct Parts {
  const Credential& credential;
  std::vector<Secret>& out;
  std::string_view secret = credential.secret.reveal();

  void operator()(const BasicKind& kind) const {
    add_all(out, secret);
    Secret pair(fmt::format("{}:{}", kind.username, secret));
    add(out, base64_encode(pair.reveal()));
  }
  void operator()(const SigV4Kind&) const { each({"secret_access_key", "session_token"}); }
  void operator()(const OAuthKind&) const { each({"client_secret", "refresh_token"}); }
  void operator()(const TlsClientKind&) const {}
  void operator()(const GithubAppKind&) const {}
  void operator()(const JwtKind& kind) const {
    if (kind.algorithm == "HS256") add_all(out, secret);
  }
  template <class Other>
  void operator()(const Other&) const {
    add_all(out, secret);
  }
  void each(std::initializer_list<std::string_view> parts) const {
    if (!secret.starts_with("{")) add_all(out, secret);
    for (auto part : parts) {
      std::string text = secret_part(secret, part);
      if (!text.empty()) add_all(out, text);
      wipe(text);
    }
  }
};

}  // namespace

std::vector<Secret> forms(std::string_view text) {
  std::vector<Secret> out;
  add(out, std::string(text));
  auto encoded = http::percent_encode(text);
  add(out, encoded);
  add(out, lower_escapes(encoded));
  auto escaped = json_inner(text);
  add(out, escaped);
  add(out, with_escaped_slashes(escaped));
  add(out, hex_encode(text));
  for (std::size_t before = 0; before < 3; ++before) {
    auto core = base64_core(text, before);
    add(out, core);
    add(out, url_alphabet(core));
    wipe(core);
  }
  wipe(encoded);
  wipe(escaped);
  return out;
}

std::vector<Secret> forms(const Credential& credential, const Locked* token) {
  std::vector<Secret> out;
  std::visit(Parts{credential, out}, credential.config.kind);
  if (token != nullptr && !token->empty()) {
    add_all(out, token->reveal());
    if (std::holds_alternative<GithubAppKind>(credential.config.kind)) {
      Secret pair(fmt::format("x-access-token:{}", token->reveal()));
      add(out, base64_encode(pair.reveal()));
    }
  }
  return out;
}

}  // namespace atl::gateway::vault
