// SPDX-License-Identifier: Apache-2.0
#include "guest/multipart.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "guest/limits.h"

namespace atl::guest {
namespace {

bool is_token(char c) {
  constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kOther.find(c) != std::string_view::npos;
}

struct Parameter {
  std::string name;  // lower case
  std::string value;
};

void skip_spaces(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

std::string take_token(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && is_token(text[size])) ++size;
  std::string out(text.substr(0, size));
  text.remove_prefix(size);
  return out;
}

// A quoted value. Backslash escapes only '"' and '\': some clients send plain Windows paths.
std::optional<std::string> take_quoted(std::string_view& text) {
  std::string out;
  for (std::size_t i = 1; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      text.remove_prefix(i + 1);
      return out;
    }
    if (c == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\')) c = text[++i];
    out += c;
  }
  return std::nullopt;
}

// "; name=value; name="value"" after the first word of a header; nullopt when malformed or when a name comes
// twice.
std::optional<std::vector<Parameter>> parse_parameters(std::string_view text) {
  std::vector<Parameter> out;
  for (;;) {
    skip_spaces(text);
    if (text.empty()) return out;
    if (text.front() != ';') return std::nullopt;
    text.remove_prefix(1);
    skip_spaces(text);
    if (text.empty()) return out;
    Parameter parameter{to_lower(take_token(text)), {}};
    if (parameter.name.empty() || text.empty() || text.front() != '=') return std::nullopt;
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '"') {
      auto value = take_quoted(text);
      if (!value) return std::nullopt;
      parameter.value = std::move(*value);
    } else {
      parameter.value = take_token(text);
    }
    bool twice =
        std::any_of(out.begin(), out.end(), [&](const Parameter& p) { return p.name == parameter.name; });
    if (twice) return std::nullopt;
    out.push_back(std::move(parameter));
  }
}

// The three escapes of browsers' form encoding (WHATWG, "multipart/form-data encoding algorithm").
std::string decode_filename(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::string_view code = text.substr(0, 3);
    char c = text.front();
    if (code == "%22")
      c = '"';
    else if (code == "%0D" || code == "%0d")
      c = '\r';
    else if (code == "%0A" || code == "%0a")
      c = '\n';
    else
      code = code.substr(0, 1);
    out += c;
    text.remove_prefix(code.size());
  }
  return out;
}

Error malformed(std::string_view what) { return make_error(Code::kInvalid, "multipart body: {}", what); }

Result<PartHead> parse_disposition(std::string_view value) {
  std::size_t word = value.find(';');
  if (!equals_ignore_case(trim(value.substr(0, word)), "form-data"))
    return malformed("a part is not form-data");
  auto parameters =
      parse_parameters(word == std::string_view::npos ? std::string_view() : value.substr(word));
  if (!parameters) return malformed("bad parameters in Content-Disposition");
  PartHead head;
  bool named = false;
  for (Parameter& parameter : *parameters) {
    if (parameter.name == "name") {
      head.name = std::move(parameter.value);
      named = true;
    } else if (parameter.name == "filename") {
      head.filename = decode_filename(parameter.value);
    } else if (parameter.name == "filename*") {
      // RFC 7578 §4.2 forbids it, and a second name for one file is how filters are fooled.
      return malformed("'filename*' is not allowed, use 'filename' with plain UTF-8");
    }
  }
  if (!named) return malformed("a part has no name");
  return head;
}

}  // namespace

Result<std::string> multipart_boundary(std::string_view content_type) {
  std::size_t word = content_type.find(';');
  if (!equals_ignore_case(trim(content_type.substr(0, word)), "multipart/form-data"))
    return Error(Code::kInvalid, "content-type must be multipart/form-data or application/octet-stream");
  auto parameters =
      parse_parameters(word == std::string_view::npos ? std::string_view() : content_type.substr(word));
  if (!parameters) return malformed("bad parameters in Content-Type");
  for (const Parameter& parameter : *parameters) {
    if (parameter.name != "boundary") continue;
    bool clean = std::all_of(parameter.value.begin(), parameter.value.end(),
                             [](char c) { return c >= ' ' && c < 127; });
    if (parameter.value.empty() || parameter.value.size() > kMaxBoundary || !clean ||
        parameter.value.back() == ' ')
      return malformed("the boundary is empty, too long, or has characters that are not allowed");
    return parameter.value;
  }
  return malformed("Content-Type has no boundary");
}

Result<PartHead> parse_part_head(std::string_view block) {
  std::optional<PartHead> head;
  std::size_t count = 0;
  while (!block.empty()) {
    std::size_t end = block.find("\r\n");
    std::string_view line = block.substr(0, end);
    block.remove_prefix(end == std::string_view::npos ? block.size() : end + 2);
    if (++count > kMaxPartHeaders) return malformed("a part has too many headers");
    std::size_t colon = line.find(':');
    if (colon == 0 || colon == std::string_view::npos ||
        !std::all_of(line.begin(), line.begin() + colon, is_token))
      return malformed("a part has a bad header line");
    if (line.find_first_of(std::string_view("\0\r\n", 3)) != std::string_view::npos)
      return malformed("a part has a control character in a header");
    if (!equals_ignore_case(line.substr(0, colon), "content-disposition")) continue;
    if (head) return malformed("a part has two Content-Disposition headers");
    TRY(head, parse_disposition(trim(line.substr(colon + 1))));
  }
  if (!head) return malformed("a part has no Content-Disposition");
  return *head;
}

MultipartParser::MultipartParser(std::string boundary) : delimiter_("\r\n--" + boundary) {
  buffer_ = "\r\n";  // so that a delimiter at the very start looks like any other
}

void MultipartParser::feed(std::string_view bytes) {
  buffer_.erase(0, at_);
  at_ = 0;
  data_ = {};
  buffer_ += bytes;
}

Result<MultipartParser::Event> MultipartParser::next() {
  for (;;) {
    switch (state_) {
      case State::kPreamble: {
        std::size_t found = rest().find(delimiter_);
        if (found == std::string_view::npos) {
          // Anything before the first delimiter is to be ignored, but not without end.
          if (rest().size() > kMaxPartHead) return malformed("no boundary at the start");
          return Event::kNeedMore;
        }
        at_ += found + delimiter_.size();
        state_ = State::kDelimiterTail;
        break;
      }
      case State::kDelimiterTail: {
        TRY(Event event, take_delimiter_tail());
        if (state_ == State::kHead && event == Event::kNeedMore) break;
        return event;
      }
      case State::kHead: return take_head();
      case State::kBody: return take_body();
      case State::kAfter:
        at_ = buffer_.size();  // the epilogue is ignored
        return Event::kEnd;
    }
  }
}

// What follows a delimiter: "--" ends the body, CRLF starts a part. Spaces before the CRLF are legal padding.
Result<MultipartParser::Event> MultipartParser::take_delimiter_tail() {
  std::string_view tail = rest();
  if (tail.starts_with("--")) {
    state_ = State::kAfter;
    return Event::kEnd;
  }
  std::size_t padding = 0;
  while (padding < tail.size() && (tail[padding] == ' ' || tail[padding] == '\t')) ++padding;
  if (padding > kMaxBoundary) return malformed("too much white space after a boundary");
  if (tail.size() < padding + 2) {
    if (tail.size() == padding + 1 && tail[padding] != '\r' && tail[padding] != '-')
      return malformed("garbage after a boundary");
    return Event::kNeedMore;
  }
  if (tail.substr(padding, 2) != "\r\n") return malformed("garbage after a boundary");
  at_ += padding + 2;
  state_ = State::kHead;
  // Says "go on" to next(); the state tells it apart from waiting for bytes.
  return Event::kNeedMore;
}

Result<MultipartParser::Event> MultipartParser::take_head() {
  std::string_view text = rest();
  std::size_t end = text.starts_with("\r\n") ? 0 : text.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (text.size() > kMaxPartHead) return malformed("the headers of a part are too large");
    return Event::kNeedMore;
  }
  if (end > kMaxPartHead) return malformed("the headers of a part are too large");
  if (++parts_ > kMaxParts)
    return make_error(Code::kInvalid, "multipart body: more than {} parts", kMaxParts);
  TRY(head_, parse_part_head(text.substr(0, end)));
  // The CRLF of the empty line stays: it begins the delimiter of a part without content.
  at_ += end == 0 ? 0 : end + 2;
  state_ = State::kBody;
  body_started_ = false;
  return Event::kPart;
}

MultipartParser::Event MultipartParser::take_body() {
  std::string_view text = rest();
  if (!body_started_) {
    if (text.size() < delimiter_.size()) return Event::kNeedMore;
    body_started_ = true;
    if (text.starts_with(delimiter_)) {
      at_ += delimiter_.size();
      state_ = State::kDelimiterTail;
      return Event::kPartEnd;
    }
    at_ += 2;
    text.remove_prefix(2);
  }
  const void* hit = ::memmem(text.data(), text.size(), delimiter_.data(), delimiter_.size());
  std::size_t found = hit == nullptr ? std::string_view::npos
                                     : static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
  if (found == 0) {
    at_ += delimiter_.size();
    state_ = State::kDelimiterTail;
    return Event::kPartEnd;
  }
  // Bytes that could be the start of a delimiter stay until more is known.
  std::size_t safe = found;
  if (found == std::string_view::npos) {
    std::size_t keep = std::min(text.size(), delimiter_.size() - 1);
    std::size_t cr = text.find('\r', text.size() - keep);
    safe = cr == std::string_view::npos ? text.size() : cr;
  }
  if (safe == 0) return Event::kNeedMore;
  data_ = text.substr(0, safe);
  at_ += safe;
  return Event::kData;
}

}  // namespace atl::guest
