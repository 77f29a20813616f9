// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/answer_head.h"

#include <openssl/sha.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/upstream/hop_by_hop.h"
#include "http/trailers.h"

namespace atl::gateway {
namespace {
constexpr std::string_view kWebsocketGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455 §1.3

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Fields about the bytes of a body, which are not true of another one.
bool is_about_bytes(std::string_view name) {
  return name == "content-length" || name == "content-encoding" || name == "content-md5" ||
         name == "digest" || name == "content-digest" || name == "repr-digest" || name == "accept-ranges" ||
         name == "content-range" || name == "etag";
}

bool is_secret_name(const SecretPatterns* patterns, const std::string& name) {
  if (patterns == nullptr) return false;
  auto copy = name;
  return patterns->replace(copy) > 0;
}

// What stands for the scheme: both origins are compared in full.
std::uint16_t port_of(std::string_view scheme) { return usual_port(equals_ignore_case(scheme, "https")); }
}  // namespace

Redirect judge_redirect(std::string_view location, const Authority& authority, bool tls) {
  // What browsers repair is not clear: white space, control characters, backslashes.
  for (char c : location) {
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) == 0x7f || c == '\\')
      return Redirect::kUnclear;
  }
  std::string_view scheme = tls ? "https" : "http";
  auto mark = location.find(':');
  auto path = location.find_first_of("/?#");
  bool has_scheme = mark != std::string_view::npos && (path == std::string_view::npos || mark < path);
  if (has_scheme) {
    scheme = location.substr(0, mark);
    if (!equals_ignore_case(scheme, "http") && !equals_ignore_case(scheme, "https"))
      return Redirect::kUnclear;
    location.remove_prefix(mark + 1);
    if (!location.starts_with("//")) return Redirect::kUnclear;
  }
  if (!location.starts_with("//")) return Redirect::kSameOrigin;
  location.remove_prefix(2);
  auto named = parse_authority(location.substr(0, location.find_first_of("/?#")), port_of(scheme));
  if (!named.ok()) return Redirect::kUnclear;
  bool same = *named == authority && equals_ignore_case(scheme, "https") == tls;
  return same ? Redirect::kSameOrigin : Redirect::kOtherOrigin;
}

Result<PreparedAnswer> prepare_answer(http::ResponseHead received, const AnswerRules& rules) {
  if (rules.brokered && is_redirect(received.status)) {
    auto location = received.headers.find("location");
    bool clear = !location || (received.headers.count("location") == 1 &&
                               judge_redirect(*location, rules.authority, rules.tls) != Redirect::kUnclear);
    if (!clear) {
      return make_error(Code::kCorrupt, "{} redirects to what is no place that can be judged",
                        rules.authority.text())
          .with_word("redirect_refused");
    }
  }
  auto options = connection_options(received.headers);
  PreparedAnswer out;
  out.head.status = received.status;
  for (const auto& field : received.headers) {
    const auto& name = field.name;
    bool named = std::find(options.begin(), options.end(), name) != options.end();
    if (is_for_one_hop(name) || name == "alt-svc" || (named && name != "content-length")) continue;
    if (rules.brokered && !rules.keep_cookies && (name == "set-cookie" || name == "set-cookie2")) continue;
    if (rules.body_changes && is_about_bytes(name)) continue;
    if (is_secret_name(rules.patterns.get(), name)) {
      ++out.incidents;
      continue;
    }
    auto value = field.value;
    if (rules.patterns) out.incidents += rules.patterns->replace(value);
    out.head.headers.add(name, std::move(value));
  }
  if (out.head.status == 101) out.head.headers.add("upgrade", "websocket");
  return out;
}

http::Headers prepare_answer_trailers(const http::Headers& received, const AnswerRules& rules,
                                      std::size_t& incidents) {
  http::Headers out;
  for (const auto& field : received) {
    if (!http::may_be_trailer(field.name) || is_for_one_hop(field.name)) continue;
    if (rules.body_changes && is_about_bytes(field.name)) continue;
    if (is_secret_name(rules.patterns.get(), field.name)) {
      ++incidents;
      continue;
    }
    auto value = field.value;
    if (rules.patterns) incidents += rules.patterns->replace(value);
    out.add(field.name, std::move(value));
  }
  return out;
}

bool accepts_websocket(const http::RequestHead& request, const http::ResponseHead& answer) {
  auto key = request.headers.find("sec-websocket-key");
  auto accept = answer.headers.find("sec-websocket-accept");
  if (answer.status != 101 || !key || !accept || answer.headers.count("sec-websocket-accept") != 1)
    return false;
  // One that was not asked for would change what frames mean.
  if (answer.headers.find("sec-websocket-extensions") && !request.headers.find("sec-websocket-extensions"))
    return false;
  if (!answer.headers.has_token("upgrade", "websocket") || answer.headers.count("upgrade") != 1) return false;
  auto text = std::string(*key).append(kWebsocketGuid);
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return *accept == base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace atl::gateway
