// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/summary.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/names/authority.h"

namespace atl::gateway {
namespace {

constexpr std::string_view kGone = "[redacted]";
constexpr std::size_t kLongWord = 20;    // of letters and digits: a key, or as good as one
constexpr std::size_t kPrefixWord = 12;  // with a beginning that keys have
constexpr std::size_t kUuid = 36;
constexpr std::size_t kLooked = 4 * kMaxShownBody;  // of a body
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxShownFields = 12;
constexpr std::size_t kMaxShownField = 160;
constexpr std::size_t kMaxShownLines = 60;  // of a body

constexpr std::array<std::string_view, 13> kSecretNames{
    "token",     "secret",        "passw",      "pwd",     "apikey", "accesskey", "privatekey",
    "signature", "authorization", "credential", "session", "cookie", "otp"};
constexpr std::array<std::string_view, 3> kSecretWholeNames{"sig", "auth", "pin"};
constexpr std::array<std::string_view, 8> kKeyBeginnings{"sk-", "sk_",  "ghp_",  "gho_",
                                                         "xox", "akia", "glpat", "atoll_"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '%' || c == '+'; }
bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; }

bool is_uuid(std::string_view word) {
  if (word.size() != kUuid) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    char c = word[i];
    bool hex = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (dash ? c != '-' : !hex) return false;
  }
  return true;
}

bool looks_like_key(std::string_view word) {
  std::string lower = to_lower(word);
  bool known = std::any_of(kKeyBeginnings.begin(), kKeyBeginnings.end(),
                           [&](std::string_view with) { return lower.starts_with(with); });
  if (known && word.size() >= kPrefixWord) return true;
  bool mixed =
      std::any_of(word.begin(), word.end(), is_letter) && std::any_of(word.begin(), word.end(), is_digit);
  return word.size() >= kLongWord && mixed && !is_uuid(word);
}

bool speaks_of_secrets(std::string_view name) {
  if (name.size() > kMaxName) return false;
  std::string plain;
  for (char c : to_lower(name)) {
    if (is_letter(c) || is_digit(c)) plain += c;
  }
  auto in = [&](std::string_view part) { return plain.find(part) != std::string::npos; };
  return std::any_of(kSecretNames.begin(), kSecretNames.end(), in) ||
         std::find(kSecretWholeNames.begin(), kSecretWholeNames.end(), plain) != kSecretWholeNames.end();
}

// Reads a text from its beginning; what was read is written, or not.
class Redactor {
 public:
  explicit Redactor(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (!is_word(text_[at_])) {
        out_ += text_[at_++];
        continue;
      }
      word();
    }
    return std::move(out_);
  }

 private:
  std::string_view take(bool (*of)(char)) {
    std::size_t begin = at_;
    while (at_ < text_.size() && of(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  void word() {
    std::size_t begin = at_;
    std::string_view name = take(is_name);
    std::size_t value = value_after(at_);
    if (value != std::string_view::npos && speaks_of_secrets(name)) {
      out_ += text_.substr(begin, value - begin);
      at_ = value;
      skip_value(name);
      return;
    }
    at_ = begin;
    std::string_view word = take(is_word);
    out_ += looks_like_key(word) ? kGone : word;
  }
  // Where the value of the name that ends at `at` begins: after `=`, `:` or `": "`; npos: it is no name.
  std::size_t value_after(std::size_t at) const {
    if (at < text_.size() && (text_[at] == '"' || text_[at] == '\'')) ++at;
    while (at < text_.size() && text_[at] == ' ') ++at;
    if (at >= text_.size() || (text_[at] != '=' && text_[at] != ':')) return std::string_view::npos;
    ++at;
    while (at < text_.size() && text_[at] == ' ') ++at;
    return at;
  }
  void skip_value(std::string_view name) {
    if (at_ >= text_.size() || text_[at_] == '{' || text_[at_] == '[') return;  // names inside decide
    char quote = text_[at_];
    if (quote == '"' || quote == '\'') {
      ++at_;
      while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2U : 1U;
      at_ = std::min(at_ + 1, text_.size());
      out_ += fmt::format("{}{}{}", quote, kGone, quote);
      return;
    }
    std::size_t begin = at_;
    while (at_ < text_.size() && std::string_view("&,;}\r\n").find(text_[at_]) == std::string_view::npos)
      ++at_;
    std::string_view value = trim(text_.substr(begin, at_ - begin));
    // A count, as in max_tokens.
    bool count = to_lower(name).ends_with("tokens") && std::all_of(value.begin(), value.end(), is_digit);
    out_ += count ? value : kGone;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

// Code points that are not seen, or change the order of others.
bool plays_tricks(std::string_view sequence) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;  // C1 controls
  if (sequence.size() != 3) return false;
  bool marks = byte(0) == 0xe2 && byte(1) == 0x80 &&
               ((byte(2) >= 0x8b && byte(2) <= 0x8f) || (byte(2) >= 0xa8 && byte(2) <= 0xae));
  bool isolates = byte(0) == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa0 && byte(2) <= 0xaf;
  bool mark_of_order = byte(0) == 0xef && byte(1) == 0xbb && byte(2) == 0xbf;
  return marks || isolates || mark_of_order;
}

// Well-formed UTF-8 without controls; line breaks stay.
std::string plain(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t length = 1;
    while (length <= 4 && length <= text.size() && !valid_utf8(text.substr(0, length))) ++length;
    bool valid = length <= 4 && length <= text.size();
    std::string_view sequence = text.substr(0, valid ? length : 1);
    auto first = static_cast<unsigned char>(sequence[0]);
    bool control = (first < 0x20 && first != '\n') || first == 0x7f;
    if (!valid || control || plays_tricks(sequence))
      out += first == '\t' ? ' ' : '?';
    else
      out += sequence;
    text.remove_prefix(sequence.size());
  }
  return out;
}

// Not in the middle of a character.
std::string cut(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text + "…";
}

// Begins with what no field's name and no line of a body can begin with.
constexpr std::string_view kMore = "(the rest is not shown)\n";

std::string body_lines(std::string_view body) {
  std::string_view looked = body.substr(0, kLooked);
  // A word that the end cuts would be too short to be known.
  if (looked.size() < body.size()) {
    auto end = looked.find_last_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%+");
    looked = looked.substr(0, end == std::string_view::npos ? 0 : end + 1);
  }
  std::string all = redacted(looked);
  bool whole = looked.size() == body.size() && all.size() <= kMaxShownBody;
  std::string out;
  std::size_t lines = 0;
  std::string shown = cut(std::move(all), kMaxShownBody);
  for (std::string_view line : split(shown, '\n')) {
    if (++lines > kMaxShownLines) break;
    out += fmt::format("| {}\n", line);
  }
  if (!whole || lines > kMaxShownLines) out += kMore;
  return out;
}

// That nobody decides by.
bool is_quiet(std::string_view name) {
  constexpr std::string_view kQuiet[] = {"accept", "accept-language", "cache-control", "dnt",
                                         "origin", "pragma",          "priority",      "referer"};
  return !is_bound(name) || name.starts_with("sec-") ||
         std::find(std::begin(kQuiet), std::end(kQuiet), name) != std::end(kQuiet);
}

std::string field_line(const http::Header& field) {
  std::string value = speaks_of_secrets(field.name) ? std::string(kGone) : redacted(field.value);
  return fmt::format("{}: {}", field.name, value);
}

std::string field_lines(const ExactRequest& request) {
  std::vector<std::string> lines;
  for (const http::Header& field : request.head->headers) {
    if (!is_quiet(field.name)) lines.push_back(field_line(field));
  }
  for (const http::Header& field : request.trailers ? *request.trailers : http::Headers())
    lines.push_back("trailer " + field_line(field));
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == kMaxShownFields) return out + fmt::format("({} more fields are not shown)\n", lines.size() - i);
    bool whole = lines[i].size() <= kMaxShownField;
    out += cut(printable(lines[i]), kMaxShownField) + "\n";
    if (!whole) out += kMore;
  }
  return out;
}

std::string whole_url(const ExactRequest& request) {
  std::string_view authority = request.authority;
  std::string usual = fmt::format(":{}", usual_port(request.secure));
  if (authority.ends_with(usual)) authority.remove_suffix(usual.size());
  std::string target = redacted(request.head->target);
  std::replace(target.begin(), target.end(), '\n', '?');
  return fmt::format("{}://{}{}", request.secure ? "https" : "http", authority, target);
}

}  // namespace

std::string redacted(std::string_view text) { return Redactor(plain(text)).run(); }

std::string shown_url(const ExactRequest& request) { return cut(whole_url(request), kMaxShownUrl); }

std::string summary_of(const ExactRequest& request) {
  std::string url = whole_url(request);
  bool whole = url.size() <= kMaxShownUrl;
  std::string out =
      fmt::format("{} {}\n", cut(request.head->method, kMaxName), cut(std::move(url), kMaxShownUrl));
  if (!whole) out += kMore;
  if (request.head->headers.has_token("upgrade", "websocket"))
    out += "opens a WebSocket: everything said in it goes with this approval\n";
  out += field_lines(request);
  if (request.body.empty()) return cut(std::move(out), kMaxSummary);
  out += fmt::format("{} bytes, SHA-256 {}\n", request.body.size(), hex_encode(sha256(request.body)));
  bool text = valid_utf8(request.body) && !request.head->headers.find("content-encoding") &&
              request.body.find('\0') == std::string_view::npos;
  out += text ? body_lines(request.body) : std::string("(not text)\n");
  return cut(std::move(out), kMaxSummary);
}

}  // namespace atl::gateway
