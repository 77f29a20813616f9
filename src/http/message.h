// SPDX-License-Identifier: Apache-2.0
//
// The values of HTTP: header fields, request heads, response heads. The same for every version of the
// protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace atl::http {

struct Header {
  std::string name;  // lower case
  std::string value;
};

// Fields in the order received. Names are lower case; lookups take lower case.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<Header> list) : list_(list) {}
  void add(std::string name, std::string value) { list_.push_back({std::move(name), std::move(value)}); }
  void set(std::string_view name, std::string value);  // replaces all of that name
  void remove(std::string_view name);
  // The first field of that name. Use count() where a second one would be an attack.
  std::optional<std::string_view> find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  bool has_token(std::string_view name, std::string_view token) const;  // comma lists, case-insensitive
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  std::size_t size() const { return list_.size(); }

 private:
  std::vector<Header> list_;
};

// A request without its body.
struct RequestHead {
  std::string method;  // upper case token, "GET"
  std::string
      target;  // origin-form as received: "/a%20b?x=1"; absolute-form is reduced to it; "*" for OPTIONS
  std::string authority;                        // Host or :authority as received, may be empty in HTTP/1.0
  std::string scheme;                           // of an absolute target, or :scheme; lower case, else empty
  Headers headers;                              // Host is in `authority`, not here
  int version = 11;                             // 10, 11 or 20
  bool secure = false;                          // arrived over TLS
  std::string peer;                             // for logs
  std::optional<std::uint64_t> content_length;  // absent for chunked or HTTP/2 without one
  bool has_body = false;

  std::string_view path() const;   // target up to '?', still percent-encoded
  std::string_view query() const;  // after '?', empty when none
};

// An answer without its body.
struct ResponseHead {
  int status = 200;
  Headers headers;  // framing fields are set by the writer; content-length may be given when known
  std::string_view reason() const;  // standard phrase
};

// True when asking twice does what asking once does (RFC 9110 §9.2.2); false for methods that nobody knows.
bool is_idempotent(std::string_view method);

std::string_view reason_phrase(int status);  // "Not Found"

// Strict percent-decoding; nullopt on a bad escape or on NUL. `plus` also turns '+' into a space (query
// strings).
enum class Plus : bool { kLiteral, kSpace };
std::optional<std::string> percent_decode(std::string_view text, Plus plus = Plus::kLiteral);
std::string percent_encode(std::string_view text);  // everything but unreserved characters

// Decoded key and value pairs in order; kInvalid on a bad escape.
Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);
// First value of `key`, nullopt when absent.
std::optional<std::string> query_value(const std::vector<std::pair<std::string, std::string>>& query,
                                       std::string_view key);

}  // namespace atl::http
