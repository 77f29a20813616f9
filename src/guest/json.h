// SPDX-License-Identifier: Apache-2.0
//
// JSON of clients, read by the rules of proto3: camelCase or snake_case, null is absent, 64-bit numbers also
// as text, unknown fields are ignored, a wrong type is refused with the path of the field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "base/result.h"

namespace atl::guest {

// A parsed message. Must be an object; at most kMaxJsonDepth deep. An empty text is an empty message.
Result<boost::json::object> parse_message(std::string_view text);

// Reads fields of one object. The first failure sticks and later reads give defaults, so a caller reads
// everything and then asks failure() once. Refers to the object and to the parent reader; both must outlive
// it.
class Fields {
 public:
  explicit Fields(const boost::json::object& object) : object_(&object), failure_(&own_failure_) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string text(std::string_view name);
  bool boolean(std::string_view name, bool fallback = false);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  std::string bytes(std::string_view name);  // base64, either alphabet
  std::vector<std::string> texts(std::string_view name, std::size_t limit);
  std::map<std::string, std::string> text_map(std::string_view name, std::size_t limit);
  // An enum: by name, or by number as the values in `choices`.
  struct Choice {
    std::string_view name;
    int value;
  };
  std::optional<int> choice(std::string_view name, std::span<const Choice> choices);
  // nullopt when absent.
  std::optional<Fields> object(std::string_view name);

  void fail(std::string_view name, std::string_view problem);
  const std::optional<Error>& failure() const { return *failure_; }

 private:
  Fields(const boost::json::object& object, std::string path, std::optional<Error>* failure)
      : object_(&object), path_(std::move(path)), failure_(failure) {}
  const boost::json::value* find(std::string_view name) const;

  const boost::json::object* object_;
  std::string path_;  // "" or "process."
  std::optional<Error> own_failure_;
  std::optional<Error>* failure_;

 public:
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;
  Fields(Fields&& other) noexcept
      : object_(other.object_),
        path_(std::move(other.path_)),
        own_failure_(std::move(other.own_failure_)),
        failure_(other.failure_ == &other.own_failure_ ? &own_failure_ : other.failure_) {}
};

// Builds one JSON object as text, in the order of the calls. Text that is not UTF-8 gets U+FFFD.
class ObjectWriter {
 public:
  ObjectWriter& text(std::string_view name, std::string_view value);
  ObjectWriter& raw(std::string_view name, std::string_view json);
  ObjectWriter& number(std::string_view name, std::int64_t value);
  ObjectWriter& number_text(std::string_view name, std::uint64_t value);  // a 64-bit number of proto3
  ObjectWriter& boolean(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  ObjectWriter& text_map(std::string_view name, const std::map<std::string, std::string>& map);
  std::string finish() &&;

 private:
  std::string out_ = "{";
};

// An object of strings.
std::string text_map_json(const std::map<std::string, std::string>& map);

}  // namespace atl::guest
