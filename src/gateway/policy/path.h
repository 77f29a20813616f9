// SPDX-License-Identifier: Apache-2.0
//
// Paths of requests as rules see them: decoded, one spelling, or doubtful.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace atl::gateway::policy {

// A path of which two servers could think differently is in doubt: dot segments, empty segments,
// parameters (";x"), backslashes, encoded slashes, control characters, double encoding, bytes that are no
// UTF-8, bad escapes. Rules do not judge such a path unless they say that they take it as it is spelled.
struct RequestPath {
  std::string raw;                    // as received
  std::vector<std::string> segments;  // decoded; "/a/" is {"a", ""}, "/" is {""}; empty when in doubt
  std::string text;                   // "/" and the segments; empty when in doubt
  std::string_view doubt;             // why, a constant; empty when there is none

  bool clear() const { return doubt.empty(); }
};

// "/a%20b/c" (without query), or "*" of OPTIONS. Never fails; what is wrong is in `doubt`.
RequestPath read_path(std::string_view raw);

// "/v1/messages": that path. "/v1/*/results": `*` is one segment. "/v1/**": it and all below. Written
// decoded. A slash at the end of a path makes no difference: many servers give the same thing with and
// without.
class PathPattern {
 public:
  // `path` is clear.
  bool matches(const RequestPath& path) const;
  // Compares the bytes as received, nothing decoded.
  bool matches_as_spelled(std::string_view raw) const;
  const std::string& text() const { return text_; }
  bool operator==(const PathPattern&) const = default;

 private:
  friend Result<PathPattern> parse_path_pattern(std::string_view text);
  template <class Segments>
  bool match(const Segments& segments) const;

  std::string text_;
  std::vector<std::string> segments_;
  bool open_ended_ = false;
};

// kInvalid for all but the forms above.
Result<PathPattern> parse_path_pattern(std::string_view text);

}  // namespace atl::gateway::policy
