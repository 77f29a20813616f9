// SPDX-License-Identifier: Apache-2.0
//
// JSON of request bodies: strict parsing, and typed access to fields that names the path of what is wrong.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "base/result.h"

namespace atl::http {

namespace json = boost::json;

inline constexpr std::size_t kMaxDepth = 32;

// One JSON text: UTF-8 without BOM, no comments, no NaN, no duplicate keys, at most kMaxDepth levels.
// kInvalid otherwise.
Result<json::value> parse_json(std::string_view text);

// Reads the fields of one object. Absent and null are the same. The first thing that is wrong is kept; ask
// status() after the last field. Unknown fields are ignored.
class Fields {
 public:
  explicit Fields(const json::object& object)
      : Fields(object, std::string(), std::make_shared<std::optional<Error>>()) {}

  std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key, std::size_t max_bytes);
  // An object of texts. Keys are not empty; no NUL anywhere.
  std::optional<std::map<std::string, std::string>> map(std::string_view key, std::size_t max_items,
                                                        std::size_t max_value);
  std::optional<std::vector<std::string>> texts(std::string_view key, std::size_t max_items);
  std::optional<Fields> object(std::string_view key);
  const json::array* array(std::string_view key);  // nullptr when absent or wrong
  const json::object& raw() const { return *object_; }

  // Says that the field `key` is wrong: "network.allowOut[2]: must be …".
  void refuse(std::string_view key, std::string_view what);
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  Result<void> status() const;

 private:
  Fields(const json::object& object, std::string prefix, std::shared_ptr<std::optional<Error>> problem)
      : object_(&object), prefix_(std::move(prefix)), problem_(std::move(problem)) {}
  const json::value* find(std::string_view key) const;

  const json::object* object_;
  std::string prefix_;
  std::shared_ptr<std::optional<Error>> problem_;  // shared with the fields of inner objects
};

}  // namespace atl::http
