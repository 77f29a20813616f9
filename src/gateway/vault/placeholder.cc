// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/placeholder.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/vault/json_place.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::vault {
namespace {

constexpr std::size_t kDigits = kPlaceholderBytes - kPlaceholderMark.size();

bool is_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// Whether `text` could be the beginning of a placeholder.
bool viable(std::string_view text) {
  auto head = std::min(text.size(), kPlaceholderMark.size());
  if (text.substr(0, head) != kPlaceholderMark.substr(0, head)) return false;
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(head), text.end(), is_digit);
}

bool holds(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

const Resolvable* lookup(const std::vector<Resolvable>& all, std::string_view text) {
  for (const auto& one : all) {
    if (constant_time_equal(one.text, text)) return &one;
  }
  return nullptr;
}

Error unresolved(std::string_view where, bool known) {
  constexpr std::string_view kKnown = "stands where its binding does not allow it";
  constexpr std::string_view kUnknown = "stands for no credential that may go to this host";
  return make_error(Code::kDenied, "a placeholder in {} {}", where, known ? kKnown : kUnknown)
      .with_word("placeholder_unresolved")
      .with_hint(
          "bind the credential to this host, port, path and place, or do not send the placeholder there");
}

// A value may be much longer than what stands for it.
Error too_often(std::string_view where) {
  return make_error(Code::kTooLarge, "{} has more than {} placeholders", where, kMostReplaced)
      .with_word("placeholder_too_often")
      .with_hint("send each once");
}

// The next thing in `text`, from `from` on, that looks like a placeholder; npos when there is none.
std::size_t next_placeholder(std::string_view text, std::size_t from) {
  for (auto at = text.find(kPlaceholderMark, from); at != text.npos;
       at = text.find(kPlaceholderMark, at + 1)) {
    auto candidate = text.substr(at, kPlaceholderBytes);
    if (candidate.size() == kPlaceholderBytes && viable(candidate)) return at;
  }
  return text.npos;
}

// What the parts of one head share.
struct Head {
  const std::vector<Resolvable>& all;
  std::size_t& replaced;
};

// Replaces all in `text`. `encode` makes the form that the place needs; `allowed` says whether it may stand
// there.
template <class Allowed, class Encode>
Result<std::string> replace(std::string_view text, const Head& head, std::string_view where,
                            const Allowed& allowed, const Encode& encode) {
  std::string out;
  std::size_t done = 0;
  for (auto at = next_placeholder(text, 0); at != text.npos; at = next_placeholder(text, done)) {
    const auto* found = lookup(head.all, text.substr(at, kPlaceholderBytes));
    if (found == nullptr || !allowed(found->places)) return unresolved(where, found != nullptr);
    if (++head.replaced > kMostReplaced) return too_often(where);
    out += text.substr(done, at - done);
    out += encode(found->value);
    done = at + kPlaceholderBytes;
  }
  out += text.substr(done);
  return out;
}

std::string as_it_is(std::string_view value) { return std::string(value); }

constexpr std::string_view kBasic = "basic ";

bool is_basic(const http::Header& header) {
  bool carries = header.name == "authorization" || header.name == "proxy-authorization";
  return carries && equals_ignore_case(std::string_view(header.value).substr(0, kBasic.size()), kBasic);
}

Result<std::string> resolve_header(const http::Header& header, const Head& head) {
  auto where = fmt::format("the header {}", header.name);
  auto allowed = [&header](const Places& places) { return holds(places.headers, header.name); };
  if (is_basic(header)) {
    auto encoded = std::string_view(header.value).substr(kBasic.size());
    auto pair = base64_decode(trim(encoded));
    if (pair && next_placeholder(*pair, 0) != pair->npos) {
      TRY(std::string resolved, replace(*pair, head, where, allowed, as_it_is));
      auto out = fmt::format("Basic {}", base64_encode(resolved));
      wipe(resolved);
      return out;
    }
  }
  TRY(std::string out, replace(header.value, head, where, allowed, as_it_is));
  if (!valid_header_value(out) && valid_header_value(header.value)) {
    wipe(out);
    return make_error(Code::kInvalid, "the secret for {} has a control character, which no header may carry",
                      where)
        .with_word("invalid_secret");
  }
  return out;
}

Result<std::string> resolve_query(std::string_view query, const Head& head) {
  std::string out;
  for (std::size_t at = 0; at <= query.size();) {
    auto end = std::min(query.find('&', at), query.size());
    auto part = query.substr(at, end - at);
    auto decoded = http::percent_decode(part.substr(0, part.find('=')), http::Plus::kSpace);
    auto allowed = [&decoded](const Places& places) { return decoded && holds(places.query, *decoded); };
    TRY(std::string resolved, replace(part, head, "the query", allowed,
                                      [](std::string_view v) { return http::percent_encode(v); }));
    out += resolved;
    if (end < query.size()) out += '&';
    at = end + 1;
  }
  return out;
}

// An escaped spelling would pass a search for the plain one, and the server would read it all the same.
Result<void> refuse_escaped(std::string_view target) {
  if (target.find('%') == target.npos) return success();
  auto decoded = http::percent_decode(target);
  if (!decoded || next_placeholder(target, 0) != target.npos) return success();
  return refuse_placeholders(*decoded, "the target, escaped");
}

}  // namespace

std::string placeholder_of(const Locked& root, std::string_view sandbox, std::string_view secret_id) {
  auto key = subkey(root, place({"placeholder", sandbox, secret_id}));
  return fmt::format("{}{}", kPlaceholderMark, hex_encode(key.reveal().substr(0, kDigits / 2)));
}

Result<void> refuse_placeholders(std::string_view text, std::string_view where) {
  if (next_placeholder(text, 0) == text.npos) return success();
  return unresolved(where, false);
}

Result<void> resolve_head(http::RequestHead& request, const std::vector<Resolvable>& all) {
  TRY_VOID(refuse_placeholders(request.authority, "the host"));
  TRY_VOID(refuse_escaped(request.target));
  std::size_t replaced = 0;
  Head head{all, replaced};
  http::Headers headers;
  for (const auto& header : request.headers) {
    TRY_VOID(refuse_placeholders(header.name, "the name of a header"));
    TRY(std::string value, resolve_header(header, head));
    headers.add(header.name, std::move(value));
  }
  auto in_path = [](const Places& places) { return places.path; };
  auto encode = [](std::string_view value) { return http::percent_encode(value); };
  TRY(std::string target, replace(request.path(), head, "the path", in_path, encode));
  if (auto question = request.target.find('?'); question != std::string::npos) {
    TRY(std::string query, resolve_query(request.query(), head));
    target += '?' + query;
  }
  request.headers = std::move(headers);
  request.target = std::move(target);
  return success();
}

Result<void> check_encoding(const http::RequestHead& request, const std::vector<Resolvable>& all) {
  auto encoding = request.headers.find("content-encoding").value_or("identity");
  bool wanted =
      std::any_of(all.begin(), all.end(), [](const Resolvable& one) { return !one.places.body.empty(); });
  if (!request.has_body || !wanted || equals_ignore_case(trim(encoding), "identity")) return success();
  return make_error(Code::kDenied, "the body is encoded, and a placeholder could stand in it")
      .with_word("placeholder_in_encoded_body")
      .with_hint("send the body without content-encoding");
}

struct BodyResolver::State {
  const std::vector<Resolvable>& all;
  Form form;
  bool follows;  // some pointer is not "": the place in the JSON text counts
  JsonPlace json;
  std::string held;  // could be the beginning of a placeholder
  std::size_t replaced = 0;

  bool allowed(const Places& places) const {
    if (holds(places.body, "")) return true;
    return follows && !json.lost() && json.in_value() && holds(places.body, json.pointer());
  }

  // Moves bytes that are no placeholder on.
  void pass(std::string_view bytes, std::string& out) {
    if (follows) {
      for (char c : bytes) json.next(c);
    }
    out += bytes;
  }

  Result<void> resolve(std::string& out) {
    const auto* found = lookup(all, held);
    if (found == nullptr || !allowed(found->places)) return unresolved("the body", found != nullptr);
    if (++replaced > kMostReplaced) return too_often("the body");
    // Letters and digits do not move the place, so the reader need not see them.
    if (form == Form::kJson) {
      auto quoted = json_quote(found->value);
      out += std::string_view(quoted).substr(1, quoted.size() - 2);
      wipe(quoted);
    } else {
      out += found->value;
    }
    held.clear();
    return success();
  }

  Result<void> take(char c, std::string& out) {
    held += c;
    while (!held.empty() && !viable(held)) {
      pass(std::string_view(held).substr(0, 1), out);
      held.erase(0, 1);
    }
    if (held.size() == kPlaceholderBytes) return resolve(out);
    return success();
  }
};

BodyResolver::BodyResolver(const std::vector<Resolvable>& all, Form form) {
  bool follows = false;
  for (const auto& one : all) {
    for (const auto& pointer : one.places.body)
      follows = follows || (form == Form::kJson && !pointer.empty());
  }
  state_.reset(new State{all, form, follows, {}, {}, 0});
}
BodyResolver::~BodyResolver() = default;

Result<void> BodyResolver::feed(std::string_view part, std::string& out) {
  for (std::size_t at = 0; at < part.size();) {
    if (state_->held.empty()) {
      auto next = std::min(part.find(kPlaceholderMark[0], at), part.size());
      state_->pass(part.substr(at, next - at), out);
      at = next;
      if (at == part.size()) break;
    }
    TRY_VOID(state_->take(part[at++], out));
  }
  return success();
}

Result<void> BodyResolver::finish(std::string& out) {
  state_->pass(state_->held, out);
  state_->held.clear();
  return success();
}

}  // namespace atl::gateway::vault
