// SPDX-License-Identifier: Apache-2.0
#include "store/codec.h"

#include <boost/json.hpp>

namespace atl::store {
namespace json = boost::json;
namespace {

Error damaged(const char* column) {
  return make_error(Code::kCorrupt, "store: column '{}' holds no valid JSON", column)
      .with_word("store_corrupt");
}

json::array encode_list(const std::vector<model::Cidr>& list) {
  json::array out;
  for (const auto& cidr : list) out.emplace_back(model::format_cidr(cidr));
  return out;
}

Result<std::vector<model::Cidr>> decode_list(const json::object& object, const char* key) {
  std::vector<model::Cidr> list;
  const json::value* value = object.if_contains(key);
  if (!value || !value->is_array()) return damaged("network");
  for (const auto& item : value->get_array()) {
    auto cidr = item.is_string() ? model::parse_cidr(std::string_view(item.get_string())) : std::nullopt;
    if (!cidr) return damaged("network");
    list.push_back(*cidr);
  }
  return list;
}

// What older rows do not have is empty.
template <class T>
Result<void> decode_optional(const json::object& object, const char* key, T& into) {
  const json::value* value = object.if_contains(key);
  if (!value) return {};
  auto read = json::try_value_to<T>(*value);
  if (!read) return damaged("network");
  into = std::move(*read);
  return {};
}

}  // namespace

std::string encode_map(const model::StringMap& map) {
  json::object object;
  for (const auto& [key, value] : map) object.emplace(key, value);
  return json::serialize(object);
}

Result<model::StringMap> decode_map(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return damaged("map");
  model::StringMap map;
  for (const auto& [key, item] : value.get_object()) {
    if (!item.is_string()) return damaged("map");
    map.emplace(key, std::string_view(item.get_string()));
  }
  return map;
}

std::string encode_network(const model::NetworkRules& rules, const model::Ingress& ingress,
                           const std::vector<std::string>& labels) {
  json::object object;
  object["internet"] = rules.internet;
  object["allow"] = encode_list(rules.allow);
  object["deny"] = encode_list(rules.deny);
  if (!rules.names.empty()) object["names"] = json::value_from(rules.names);
  if (!rules.headers.empty()) object["headers"] = json::value_from(rules.headers);
  if (!rules.https_ports.empty()) object["https_ports"] = json::value_from(rules.https_ports);
  if (rules.proxy)
    object["proxy"] = json::array{rules.proxy->address, rules.proxy->username, rules.proxy->sealed_password};
  if (!labels.empty()) object["labels"] = json::value_from(labels);
  object["allow_public"] = ingress.allow_public;
  object["mask_host"] = ingress.mask_request_host;
  return json::serialize(object);
}

Result<NetworkColumn> decode_network(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return damaged("network");
  const json::object& object = value.get_object();
  const json::value* internet = object.if_contains("internet");
  const json::value* allow_public = object.if_contains("allow_public");
  const json::value* mask = object.if_contains("mask_host");
  if (!internet || !internet->is_bool() || !allow_public || !allow_public->is_bool() || !mask ||
      !mask->is_string()) {
    return damaged("network");
  }
  NetworkColumn column;
  column.rules.internet = internet->get_bool();
  column.ingress.allow_public = allow_public->get_bool();
  column.ingress.mask_request_host = std::string_view(mask->get_string());
  TRY(column.rules.allow, decode_list(object, "allow"));
  TRY(column.rules.deny, decode_list(object, "deny"));
  TRY_VOID(decode_optional(object, "names", column.rules.names));
  TRY_VOID(decode_optional(object, "headers", column.rules.headers));
  TRY_VOID(decode_optional(object, "https_ports", column.rules.https_ports));
  std::vector<std::string> proxy;
  TRY_VOID(decode_optional(object, "proxy", proxy));
  if (!proxy.empty() && proxy.size() != 3) return damaged("network");
  if (!proxy.empty()) column.rules.proxy = model::EgressProxy{proxy[0], proxy[1], proxy[2]};
  TRY_VOID(decode_optional(object, "labels", column.labels));
  return column;
}

std::string encode_isolation(const std::optional<model::IsolationWord>& word) {
  return word ? std::string(word->text()) : std::string();
}

Result<std::optional<model::IsolationWord>> decode_isolation(const std::string& text) {
  auto word = model::parse_isolation(text);
  if (word || text.empty()) return word;
  return make_error(Code::kCorrupt, "store: '{}' is no isolation and no risk", text);
}

}  // namespace atl::store
