// SPDX-License-Identifier: Apache-2.0
//
// MultipartParser: multipart/form-data (RFC 7578) as a stream, without I/O. Strict: what is not well formed
// is an error, and nothing is guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace atl::guest {

// The boundary of a Content-Type value; kInvalid when it is not multipart/form-data or has none.
Result<std::string> multipart_boundary(std::string_view content_type);

// What the headers of one part say.
struct PartHead {
  std::string name;
  std::optional<std::string> filename;  // as sent: slashes kept, %22 %0D %0A decoded, nothing else
};
// Parses the header block of one part, without its empty line.
Result<PartHead> parse_part_head(std::string_view block);

// Feed bytes, then call next() until it gives kNeedMore.
class MultipartParser {
 public:
  explicit MultipartParser(std::string boundary);

  void feed(std::string_view bytes);
  enum class Event { kNeedMore, kPart, kData, kPartEnd, kEnd };
  // kPart: head() is new. kData: data() holds the next bytes of the part, valid until the next call of next()
  // or feed().
  Result<Event> next();
  const PartHead& head() const { return head_; }
  std::string_view data() const { return data_; }
  bool ended() const { return state_ == State::kAfter; }

 private:
  enum class State { kPreamble, kDelimiterTail, kHead, kBody, kAfter };
  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  Result<Event> take_delimiter_tail();
  Result<Event> take_head();
  Event take_body();

  std::string delimiter_;  // CRLF "--" boundary
  std::string buffer_;
  std::size_t at_ = 0;
  State state_ = State::kPreamble;
  PartHead head_;
  std::string_view data_;
  std::size_t parts_ = 0;
  bool body_started_ = false;
};

}  // namespace atl::guest
