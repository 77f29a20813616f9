// SPDX-License-Identifier: Apache-2.0
//
// nghttp2 has refused the grossest already: upper-case names, connection-specific fields, duplicated, missing
// or late pseudo fields, lengths that do not match the data.
#include "http/h2/request_fields.h"

#include "base/text.h"
#include "http/head_parser.h"
#include "http/syntax.h"

namespace atl::http {
namespace {
constexpr std::size_t kFieldOverhead = 32;  // RFC 9113 §6.5.2 counts a field so
constexpr std::size_t kHopelessFactor = 4;  // beyond this multiple of the limit nothing is answered any more

void refuse(H2Stream& stream, int status, std::string message) {
  if (!stream.refusal) stream.refusal = Refusal{status, std::move(message)};
}
}  // namespace

bool add_request_field(H2Stream& stream, std::string_view name, std::string_view value,
                       const ServerLimits& limits) {
  auto& head = stream.request;
  stream.head_bytes += name.size() + value.size() + kFieldOverhead;
  if (stream.head_bytes > limits.head_bytes) {
    refuse(stream, 431, fmt::format("message head larger than {} bytes", limits.head_bytes));
    return stream.head_bytes <= limits.head_bytes * kHopelessFactor;
  }
  if (name == ":method") {
    head.method = value;
  } else if (name == ":scheme") {
    head.scheme = to_lower(value);
  } else if (name == ":authority") {
    head.authority = value;
  } else if (name == ":path") {
    if (value.size() > limits.target_bytes) {
      refuse(stream, 414, fmt::format("request target longer than {} bytes", limits.target_bytes));
    } else {
      head.target = value;
    }
  } else if (head.headers.size() >= limits.header_count) {
    refuse(stream, 431, fmt::format("more than {} header fields", limits.header_count));
  } else {
    head.headers.add(std::string(name), std::string(value));
  }
  return true;
}

void finish_request_head(H2Stream& stream, const ServerLimits&) {
  auto& head = stream.request;
  if (stream.refusal) return;
  for (const auto& field : head.headers) {
    if (!is_token(field.name) || !is_field_value(trim(field.value)))
      return refuse(stream, 400, "malformed header field");
  }
  if (!is_known_method(head.method)) return refuse(stream, 400, "unknown request method");
  // Clients may split the cookies into several fields to compress them better; they are one list (RFC 9113
  // §8.2.3).
  if (head.headers.count("cookie") > 1) {
    std::string joined;
    for (const auto& field : head.headers) {
      if (field.name == "cookie") joined.append(joined.empty() ? "" : "; ").append(field.value);
    }
    head.headers.set("cookie", std::move(joined));
  }
  if (head.headers.count("host") > 1) return refuse(stream, 400, "more than one Host");
  if (auto host = head.headers.find("host")) {
    if (head.authority.empty()) head.authority = *host;
    if (!equals_ignore_case(*host, head.authority)) return refuse(stream, 400, ":authority and Host differ");
    head.headers.remove("host");
  }
  if (!is_authority(head.authority))
    return refuse(stream, 400, ":authority is not a host name with an optional port");
  if (head.method == "CONNECT") {
    head.target = head.authority;
  } else if (!is_origin_form(head.target) && !(head.method == "OPTIONS" && head.target == "*")) {
    return refuse(stream, 400, "request target with characters that are not allowed");
  }
  if (auto length = head.headers.find("content-length")) {
    head.content_length = parse_content_length(*length);
    if (!head.content_length || head.headers.count("content-length") > 1) {
      return refuse(stream, 400, "Content-Length is not a plain number");
    }
  }
  head.headers.remove("expect");
  head.version = 20;
  head.has_body = !stream.end_received;
}

}  // namespace atl::http
