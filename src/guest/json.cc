// SPDX-License-Identifier: Apache-2.0
#include "guest/json.h"

#include <cmath>

#include <boost/json/parse.hpp>

#include "base/bytes.h"
#include "base/text.h"
#include "guest/limits.h"

namespace atl::guest {
namespace json = boost::json;
namespace {

std::string snake_case(std::string_view camel) {
  std::string out;
  for (char c : camel) {
    if (c >= 'A' && c <= 'Z') {
      out += '_';
      out += static_cast<char>(c + 32);
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

// A whole number in any of the forms that proto3 allows: 5, 5.0, "5".
std::optional<std::int64_t> whole_number(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_string()) return parse_number<std::int64_t>(view(value.get_string()));
  if (value.is_double()) {
    double number = value.get_double();
    if (std::trunc(number) == number && std::abs(number) < 9.0e15) return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

}  // namespace

Result<json::object> parse_message(std::string_view text) {
  if (text.empty()) return json::object();
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  boost::system::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return make_error(Code::kInvalid, "the message is not valid JSON: {}", error.message());
  if (!value.is_object()) return Error(Code::kInvalid, "the message must be a JSON object");
  return std::move(value.get_object());
}

const json::value* Fields::find(std::string_view name) const {
  const json::value* value = object_->if_contains({name.data(), name.size()});
  if (value == nullptr) value = object_->if_contains(snake_case(name));
  return value == nullptr || value->is_null() ? nullptr : value;
}

void Fields::fail(std::string_view name, std::string_view problem) {
  if (!*failure_) *failure_ = make_error(Code::kInvalid, "{}{}: {}", path_, name, problem);
}

std::string Fields::text(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_string()) {
    fail(name, "must be a string");
    return {};
  }
  return std::string(view(value->get_string()));
}

bool Fields::boolean(std::string_view name, bool fallback) {
  const json::value* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) {
    fail(name, "must be true or false");
    return fallback;
  }
  return value->get_bool();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  auto number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    fail(name, fmt::format("must be a whole number from {} to {}", low, high));
    return std::nullopt;
  }
  return number;
}

std::string Fields::bytes(std::string_view name) {
  std::string encoded = text(name);
  if (encoded.empty()) return {};
  auto raw = base64_decode(encoded);
  if (!raw) raw = base64url_decode(encoded);
  if (!raw) fail(name, "must be base64");
  return std::move(raw).value_or(std::string());
}

std::vector<std::string> Fields::texts(std::string_view name, std::size_t limit) {
  std::vector<std::string> out;
  const json::value* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array() || value->get_array().size() > limit) {
    fail(name, fmt::format("must be an array of at most {} strings", limit));
    return out;
  }
  for (const json::value& item : value->get_array()) {
    if (!item.is_string()) {
      fail(fmt::format("{}[{}]", name, out.size()), "must be a string");
      return out;
    }
    out.emplace_back(view(item.get_string()));
  }
  return out;
}

std::map<std::string, std::string> Fields::text_map(std::string_view name, std::size_t limit) {
  std::map<std::string, std::string> out;
  const json::value* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_object() || value->get_object().size() > limit) {
    fail(name, fmt::format("must be an object of at most {} strings", limit));
    return out;
  }
  for (const auto& [key, item] : value->get_object()) {
    if (!item.is_string()) {
      fail(fmt::format("{}.{}", name, std::string_view(key.data(), key.size())), "must be a string");
      return out;
    }
    out.emplace(std::string_view(key.data(), key.size()), view(item.get_string()));
  }
  return out;
}

std::optional<int> Fields::choice(std::string_view name, std::span<const Choice> choices) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  auto number = value->is_string() ? std::nullopt : whole_number(*value);
  for (const Choice& option : choices) {
    if (number ? *number == option.value : value->is_string() && view(value->get_string()) == option.name)
      return option.value;
  }
  fail(name, "is not one of the known values");
  return std::nullopt;
}

std::optional<Fields> Fields::object(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    fail(name, "must be an object");
    return std::nullopt;
  }
  return Fields(value->get_object(), fmt::format("{}{}.", path_, name), failure_);
}

ObjectWriter& ObjectWriter::raw(std::string_view name, std::string_view json) {
  if (out_.size() > 1) out_ += ',';
  out_ += '"';
  out_ += name;
  out_ += "\":";
  out_ += json;
  return *this;
}

ObjectWriter& ObjectWriter::text(std::string_view name, std::string_view value) {
  return raw(name, json_quote(value));
}

ObjectWriter& ObjectWriter::number(std::string_view name, std::int64_t value) {
  return raw(name, fmt::format("{}", value));
}

ObjectWriter& ObjectWriter::number_text(std::string_view name, std::uint64_t value) {
  return raw(name, fmt::format("\"{}\"", value));
}

ObjectWriter& ObjectWriter::text_map(std::string_view name, const std::map<std::string, std::string>& map) {
  return raw(name, text_map_json(map));
}

std::string ObjectWriter::finish() && {
  out_ += '}';
  return std::move(out_);
}

std::string text_map_json(const std::map<std::string, std::string>& map) {
  std::string out = "{";
  for (const auto& [key, value] : map) {
    if (out.size() > 1) out += ',';
    out += json_quote(key);
    out += ':';
    out += json_quote(value);
  }
  return out + "}";
}

}  // namespace atl::guest
