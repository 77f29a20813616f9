// SPDX-License-Identifier: Apache-2.0
//
// What a client of /execute gets: one JSON object a line, as the published client reads them
// (docs/guides/code-interpreter.md). Lines are pure ASCII, because that client decodes each block of bytes by
// itself and would tear characters that lie across two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>

namespace atl::guest::interpreter {

inline constexpr std::string_view kKeepaliveLine = "{\"type\":\"keepalive\"}\n";
inline constexpr std::string_view kEndLine = "{\"type\":\"end_of_execution\"}\n";

// "stdout" or "stderr". Bytes that are not UTF-8 become U+FFFD.
std::string output_line(std::string_view stream, std::string_view text);
std::string count_line(std::int64_t executions);
std::string error_line(std::string_view name, std::string_view value, std::string_view traceback);
// A MIME bundle; `main`: the value of the last expression, not something that was displayed.
std::string result_line(const boost::json::object& bundle, bool main);

// The MIME types under which our kernels hand over what has a field of its own.
inline constexpr std::string_view kChartType = "application/vnd.atoll.chart+json";
inline constexpr std::string_view kDataType = "application/vnd.atoll.data+json";

// Text without escapes beyond ASCII inside JSON `text`, whose strings may hold UTF-8.
std::string ascii_json(std::string_view text);

// Cuts a stream of bytes at the borders of UTF-8 characters.
class Utf8Pieces {
 public:
  // All whole characters of what came so far.
  std::string take(std::string_view bytes);
  // What is left when the stream ends, whole or not.
  std::string rest();

 private:
  std::string tail_;  // at most 3 bytes
};

}  // namespace atl::guest::interpreter
