// SPDX-License-Identifier: Apache-2.0
//
// api/openapi.yaml as JSON, and a check of values against its schemas: as much of JSON Schema as the file
// uses. Properties that a schema does not name are mistakes here, so that the file stays complete.
#pragma once

#include <re2/re2.h>
#include <yaml.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include <boost/json.hpp>

namespace atl::test {

namespace json = boost::json;

class OpenApi {
 public:
  explicit OpenApi(const std::string& path) : root_(load(path)) {}

  // The operation of a path pattern and a method; nullptr when there is none.
  const json::object* operation(const std::string& path, std::string method) const {
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    const json::value* item = root_.at("paths").as_object().if_contains(path);
    const json::value* found = item ? item->as_object().if_contains(method) : nullptr;
    return found ? &found->as_object() : nullptr;
  }
  const json::object& paths() const { return root_.at("paths").as_object(); }
  const json::object& path_item(const std::string& path) const { return paths().at(path).as_object(); }

  // Follows "$ref" until there is none.
  const json::object& resolve(const json::value& value) const {
    const json::object* object = &value.as_object();
    while (const json::value* ref = object->if_contains("$ref")) {
      const json::value* at = &root_;
      std::string text(ref->as_string());
      for (std::size_t from = 2; from < text.size();) {
        std::size_t slash = std::min(text.find('/', from), text.size());
        at = &at->at(text.substr(from, slash - from));
        from = slash + 1;
      }
      object = &at->as_object();
    }
    return *object;
  }

  // What is wrong with `value`, empty when nothing is.
  std::string check(const json::value& value, const json::value& schema_or_ref,
                    const std::string& where = "body") const {
    const json::object& schema = resolve(schema_or_ref);
    if (const json::value* type = schema.if_contains("type"); type && !has_type(value, *type)) {
      return where + " is " + json::serialize(value) + ", not a " + json::serialize(*type);
    }
    if (const json::value* list = schema.if_contains("enum"); list && !contains(list->as_array(), value)) {
      return where + ": " + json::serialize(value) + " is not among " + json::serialize(*list);
    }
    if (const json::value* pattern = schema.if_contains("pattern"); pattern && value.is_string()) {
      if (!RE2::FullMatch(text_of(value), text_of(*pattern))) {
        return where + " does not match its pattern";
      }
    }
    if (const json::value* format = schema.if_contains("format");
        format && *format == "date-time" && value.is_string()) {
      static const RE2 kTime(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
      if (!RE2::FullMatch(text_of(value), kTime)) return where + " is no time of RFC 3339";
    }
    if (value.is_array()) return check_items(value.as_array(), schema, where);
    if (value.is_object()) return check_properties(value.as_object(), schema, where);
    return {};
  }

 private:
  static std::string text_of(const json::value& value) { return std::string(value.as_string()); }

  static bool contains(const json::array& list, const json::value& value) {
    for (const auto& item : list) {
      if (item == value) return true;
    }
    return false;
  }

  static bool has_type(const json::value& value, const json::value& type) {
    if (type.is_array()) {
      for (const auto& one : type.as_array()) {
        if (has_type(value, one)) return true;
      }
      return false;
    }
    const auto& name = type.as_string();
    if (name == "object") return value.is_object();
    if (name == "array") return value.is_array();
    if (name == "string") return value.is_string();
    if (name == "boolean") return value.is_bool();
    if (name == "null") return value.is_null();
    if (name == "integer") return value.is_int64() || value.is_uint64();
    return name == "number" && value.is_number();
  }

  std::string check_items(const json::array& list, const json::object& schema,
                          const std::string& where) const {
    const json::value* items = schema.if_contains("items");
    for (std::size_t i = 0; items && i < list.size(); ++i) {
      auto problem = check(list[i], *items, where + "[" + std::to_string(i) + "]");
      if (!problem.empty()) return problem;
    }
    return {};
  }

  std::string check_properties(const json::object& object, const json::object& schema,
                               const std::string& where) const {
    if (const json::value* required = schema.if_contains("required")) {
      for (const auto& name : required->as_array()) {
        if (!object.contains(name.as_string())) return where + " lacks " + std::string(name.as_string());
      }
    }
    const json::value* properties = schema.if_contains("properties");
    const json::value* others = schema.if_contains("additionalProperties");
    for (const auto& [name, value] : object) {
      const json::value* inner = properties ? properties->as_object().if_contains(name) : nullptr;
      if (!inner) inner = others;
      if (!inner && properties) return where + " has an unknown property " + std::string(name);
      if (!inner) continue;
      auto problem = check(value, *inner, where + "." + std::string(name));
      if (!problem.empty()) return problem;
    }
    return {};
  }

  static json::value load(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (!file) throw std::runtime_error("cannot open " + path);
    yaml_parser_t parser;
    yaml_document_t document;
    yaml_parser_initialize(&parser);
    yaml_parser_set_input_file(&parser, file);
    bool ok = yaml_parser_load(&parser, &document) == 1 && yaml_document_get_root_node(&document);
    json::value root = ok ? convert(&document, yaml_document_get_root_node(&document)) : json::value();
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    std::fclose(file);
    if (!ok) throw std::runtime_error(path + " is not valid YAML");
    return root;
  }

  static json::value convert(yaml_document_t* document, yaml_node_t* node) {
    if (node->type == YAML_SCALAR_NODE) return scalar(node);
    if (node->type == YAML_SEQUENCE_NODE) {
      json::array out;
      for (auto* item = node->data.sequence.items.start; item < node->data.sequence.items.top; ++item) {
        out.push_back(convert(document, yaml_document_get_node(document, *item)));
      }
      return out;
    }
    json::object out;
    for (auto* pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; ++pair) {
      auto key = text(yaml_document_get_node(document, pair->key));
      auto value = convert(document, yaml_document_get_node(document, pair->value));
      if (key != "<<") {
        out[key] = std::move(value);
        continue;
      }
      for (const auto& [name, inner] : value.as_object()) out.emplace(name, inner);  // a merge key
    }
    return out;
  }

  static std::string text(yaml_node_t* node) {
    return std::string(reinterpret_cast<const char*>(node->data.scalar.value), node->data.scalar.length);
  }

  static json::value scalar(yaml_node_t* node) {
    std::string value = text(node);
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return json::value(value);
    if (value == "true" || value == "false") return json::value(value == "true");
    if (value == "null" || value.empty()) return nullptr;
    if (value.find_first_not_of("0123456789") == std::string::npos) return json::value(std::stoll(value));
    return json::value(value);
  }

  json::value root_;
};

}  // namespace atl::test
