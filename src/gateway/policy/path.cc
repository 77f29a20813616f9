// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/path.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "http/message.h"

namespace atl::gateway::policy {
namespace {

constexpr std::size_t kMaxPatternBytes = 1024;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool has_escape(std::string_view text) {
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    if (at + 2 < text.size() && is_hex(text[at + 1]) && is_hex(text[at + 2])) return true;
  }
  return false;
}

// Some servers cut a segment at ';' before they look for dots.
bool is_dots(std::string_view segment) {
  auto name = segment.substr(0, segment.find(';'));
  return name == "." || name == "..";
}

std::string_view doubt_of(std::string_view segment) {
  if (segment.find('/') != std::string_view::npos) return "it holds an encoded slash";
  if (segment.find('\\') != std::string_view::npos) return "it holds a backslash";
  if (is_dots(segment)) return "it holds a dot segment";
  if (has_escape(segment)) return "it is encoded twice";
  if (!valid_utf8(segment)) return "it is not UTF-8";
  bool control = std::any_of(segment.begin(), segment.end(), [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
  return control ? "it holds a control character" : std::string_view();
}

// Without the empty segment that a slash at the end leaves.
template <class Segments>
std::size_t counted(const Segments& segments) {
  return segments.size() - (!segments.empty() && segments.back().empty() ? 1 : 0);
}

Error wrong(std::string_view text, std::string_view why) {
  return make_error(Code::kInvalid, "'{}' is not a pattern of paths: {}", printable(text.substr(0, 128)), why)
      .with_hint("write /a/b, /a/*/c or /a/**");
}

}  // namespace

RequestPath read_path(std::string_view raw) {
  RequestPath out;
  out.raw = raw;
  auto doubt = [&out](std::string_view why) {
    out.segments.clear();
    out.text.clear();
    out.doubt = why;
    return out;
  };
  if (raw == "*") {
    out.text = "*";
    return out;
  }
  if (!raw.starts_with('/')) return doubt("it does not begin with a slash");
  auto parts = split(raw.substr(1), '/');
  out.segments.reserve(parts.size());
  out.text.reserve(raw.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].find(';') != std::string_view::npos)
      return doubt("it holds a parameter, which some servers cut off");
    if (parts[i].empty() && i + 1 < parts.size()) return doubt("it holds an empty segment");
    auto decoded = http::percent_decode(parts[i]);
    if (!decoded) return doubt("it holds a bad escape");
    if (auto why = doubt_of(*decoded); !why.empty()) return doubt(why);
    out.text += '/';
    out.text += *decoded;
    out.segments.push_back(*std::move(decoded));
  }
  return out;
}

template <class Segments>
bool PathPattern::match(const Segments& segments) const {
  std::size_t count = counted(segments);
  if (open_ended_ ? count < segments_.size() : count != segments_.size()) return false;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i] != "*" && segments_[i] != segments[i]) return false;
  }
  return true;
}

bool PathPattern::matches(const RequestPath& path) const {
  return path.clear() && path.text != "*" && match(path.segments);
}

bool PathPattern::matches_as_spelled(std::string_view raw) const {
  return raw.starts_with('/') && match(split(raw.substr(1), '/'));
}

Result<PathPattern> parse_path_pattern(std::string_view text) {
  if (text.size() > kMaxPatternBytes) return wrong(text, "it is too long");
  if (!text.starts_with('/')) return wrong(text, "it does not begin with a slash");
  PathPattern out;
  out.text_ = text;
  auto parts = split(text.substr(1), '/');
  if (parts.back() == "**") {
    out.open_ended_ = true;
    parts.pop_back();
  }
  if (!parts.empty() && parts.back().empty()) parts.pop_back();
  for (auto part : parts) {
    if (part.empty()) return wrong(text, "a segment is empty");
    if (part != "*" && part.find('*') != std::string_view::npos)
      return wrong(text, "* stands for a whole segment, and ** stands at the end");
    if (auto why = doubt_of(part); !why.empty()) return wrong(text, why);
    out.segments_.emplace_back(part);
  }
  return out;
}

}  // namespace atl::gateway::policy
