// SPDX-License-Identifier: Apache-2.0
#include "http/json.h"

#include <set>

#include <boost/json/basic_parser_impl.hpp>

namespace atl::http {
namespace {

Error field_error(std::string_view path, std::string_view what) {
  return make_error(Code::kInvalid, "{}: {}", path, what).with_word("invalid_field");
}

// Walks a text without building anything; fails on a key that its object has already. Boost.JSON keeps the
// last of them, other readers the first, so the same bytes would mean two things.
struct KeyWatch {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);
  using error_code = json::error_code;
  using view = json::string_view;

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t, error_code&) { return true; }
  bool on_object_begin(error_code&) {
    open.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, error_code&) {
    open.pop_back();
    return true;
  }
  bool on_string_part(view, std::size_t, error_code&) { return true; }
  bool on_string(view, std::size_t, error_code&) { return true; }
  bool on_key_part(view part, std::size_t, error_code&) {
    key.append(part.data(), part.size());
    return true;
  }
  bool on_key(view part, std::size_t, error_code& error) {
    key.append(part.data(), part.size());
    if (!open.back().insert(key).second) {
      duplicate = key;
      error = json::make_error_code(json::error::syntax);
      return false;
    }
    key.clear();
    return true;
  }
  bool on_number_part(view, error_code&) { return true; }
  bool on_int64(std::int64_t, view, error_code&) { return true; }
  bool on_uint64(std::uint64_t, view, error_code&) { return true; }
  bool on_double(double, view, error_code&) { return true; }
  bool on_bool(bool, error_code&) { return true; }
  bool on_null(error_code&) { return true; }
  bool on_comment_part(view, error_code&) { return true; }
  bool on_comment(view, error_code&) { return true; }

  std::vector<std::set<std::string>> open;
  std::string key;
  std::optional<std::string> duplicate;
};

json::parse_options strict() {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  return options;  // comments, trailing commas and invalid UTF-8 are refused by default
}

Error malformed(std::string_view what) {
  return make_error(Code::kInvalid, "body: not valid JSON: {}", what).with_word("invalid_json");
}

}  // namespace

Result<json::value> parse_json(std::string_view text) {
  json::basic_parser<KeyWatch> watch(strict());
  boost::system::error_code error;
  std::size_t read = watch.write_some(false, text.data(), text.size(), error);
  if (watch.handler().duplicate)
    return malformed("the key '" + *watch.handler().duplicate + "' appears twice in one object");
  if (error) return malformed(error.message());
  if (read != text.size()) return malformed("there is something behind the value");
  json::value value =
      json::parse(json::string_view(text.data(), text.size()), error, json::storage_ptr(), strict());
  if (error) return malformed(error.message());
  return value;
}

const json::value* Fields::find(std::string_view key) const {
  const json::value* value = object_->if_contains(json::string_view(key.data(), key.size()));
  return value && !value->is_null() ? value : nullptr;
}

void Fields::refuse(std::string_view key, std::string_view what) {
  if (!*problem_) problem_->emplace(field_error(path(key), what));
}

Result<void> Fields::status() const {
  if (*problem_) return Error(**problem_);
  return {};
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  std::int64_t number = 0;
  if (value->is_int64()) {
    number = value->get_int64();
  } else if (value->is_uint64()) {
    number = INT64_MAX;  // larger than any bound
  } else {
    refuse(key, "must be an integer");
    return std::nullopt;
  }
  if (number >= min && number <= max) return number;
  refuse(key, fmt::format("must be from {} to {}", min, max));
  return std::nullopt;
}

std::optional<bool> Fields::boolean(std::string_view key) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_bool()) return value->get_bool();
  refuse(key, "must be true or false");
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view key, std::size_t max_bytes) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) {
    refuse(key, "must be a string");
  } else if (value->get_string().size() > max_bytes) {
    refuse(key, fmt::format("must not be longer than {} bytes", max_bytes));
  } else if (value->get_string().find('\0') != json::string::npos) {
    refuse(key, "must not contain NUL");
  } else {
    return std::string(value->get_string());
  }
  return std::nullopt;
}

std::optional<std::map<std::string, std::string>> Fields::map(std::string_view key, std::size_t max_items,
                                                              std::size_t max_value) {
  auto inner = object(key);
  if (!inner) return std::nullopt;
  if (inner->raw().size() > max_items) {
    refuse(key, fmt::format("must not have more than {} entries", max_items));
    return std::nullopt;
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : inner->raw()) {
    std::string_view label(name.data(), name.size());
    if (label.empty() || label.size() > 256 || label.find('\0') != std::string_view::npos) {
      refuse(key, "keys must have 1 to 256 bytes and no NUL");
    } else if (value.is_null()) {
      inner->refuse(label, "must be a string");
    } else if (auto text = inner->text(label, max_value)) {
      out.emplace(label, std::move(*text));
    }
  }
  return out;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view key, std::size_t max_items) {
  const json::array* list = array(key);
  if (!list) return std::nullopt;
  if (list->size() > max_items) {
    refuse(key, fmt::format("must not have more than {} entries", max_items));
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_string()) {
      refuse(fmt::format("{}[{}]", key, i), "must be a string");
      return std::nullopt;
    }
    out.emplace_back((*list)[i].get_string());
  }
  return out;
}

std::optional<Fields> Fields::object(std::string_view key) {
  const json::value* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_object()) return Fields(value->get_object(), path(key) + ".", problem_);
  refuse(key, "must be an object");
  return std::nullopt;
}

const json::array* Fields::array(std::string_view key) {
  const json::value* value = find(key);
  if (!value) return nullptr;
  if (value->is_array()) return &value->get_array();
  refuse(key, "must be an array");
  return nullptr;
}

}  // namespace atl::http
