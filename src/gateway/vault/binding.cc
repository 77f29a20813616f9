// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/binding.h"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "base/text.h"
#include "gateway/vault/kinds.h"
#include "http/json.h"

namespace atl::gateway::vault {
namespace {

namespace json = boost::json;
using http::Fields;
using Texts = std::vector<std::string>;

constexpr std::size_t kMaxItems = 64;
constexpr std::size_t kMaxText = 2048;
constexpr int kMaxPort = 65535;
constexpr std::size_t kMaxVariable = 128;

bool holds(const Texts& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool sandbox_matches(const Binding& binding, const BindingRequest& request) {
  return is_for(binding, request.tenant, request.sandbox, request.template_id);
}

// As shells and programs can read it.
bool valid_variable(std::string_view name) {
  auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  bool begins = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0;
  return begins && name.size() <= kMaxVariable && std::all_of(name.begin(), name.end(), fits);
}

bool matches(const Binding& binding, const BindingRequest& request) {
  return sandbox_matches(binding, request) && binding.host.matches(request.host) &&
         binding.port == request.port && (request.secure || binding.cleartext) &&
         (binding.methods.empty() || holds(binding.methods, request.method)) &&
         path_is_within(request.path, binding.path_prefix);
}

// Greater is more specific.
auto specificity(const Binding& binding, const BindingRequest& request) {
  auto host = binding.host.text();
  bool exact = !host.starts_with('*');
  int scope = holds(binding.sandboxes, request.sandbox) ? 2 : (binding.templates.empty() ? 0 : 1);
  return std::tuple(exact, host.size(), binding.path_prefix.size(), scope, !binding.methods.empty());
}

void refuse_unknown(Fields& fields, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : fields.raw()) {
    if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
      fields.refuse(key, "is not known");
  }
}

Places read_places(Fields& fields) {
  Places out;
  refuse_unknown(fields, {"headers", "query", "path", "body", "variable"});
  out.headers = fields.texts("headers", kMaxItems).value_or(Texts());
  for (auto& name : out.headers) {
    if (!valid_header_name(name)) fields.refuse("headers", "must have names of headers");
    name = to_lower(name);
  }
  out.query = fields.texts("query", kMaxItems).value_or(Texts());
  out.path = fields.boolean("path").value_or(false);
  out.body = fields.texts("body", kMaxItems).value_or(Texts());
  for (const auto& pointer : out.body) {
    if (!pointer.empty() && pointer[0] != '/') fields.refuse("body", "must have JSON pointers, like /a/0/b");
  }
  if (!out.any()) fields.refuse("headers", "or query, path or body must be given");
  return out;
}

}  // namespace

bool is_plain_path(std::string_view path) {
  if (!path.starts_with('/') || path.find("//") != path.npos || path.find('\\') != path.npos) return false;
  auto lower = to_lower(path);
  for (auto escape : {"%2f", "%5c", "%2e", "%00"}) {
    if (lower.find(escape) != lower.npos) return false;
  }
  for (auto segment : split(path, '/')) {
    // Some servers cut a parameter off before they look: "/..;/admin".
    auto name = segment.substr(0, segment.find(';'));
    if (name == "." || name == "..") return false;
  }
  return true;
}

bool path_is_within(std::string_view path, std::string_view prefix) {
  if (prefix == "/") return true;
  bool parameters = path.find(';') != path.npos;  // some servers cut them off
  if (parameters || !is_plain_path(path) || !path.starts_with(prefix)) return false;
  return prefix.ends_with('/') || path.size() == prefix.size() || path[prefix.size()] == '/';
}

Result<Binding> parse_binding(const json::object& text) {
  Fields fields(text);
  refuse_unknown(fields,
                 {"host", "port", "path", "methods", "cleartext", "sandboxes", "templates", "placeholder"});
  auto host = fields.text("host", kMaxText).value_or("");
  auto pattern = parse_host_pattern(host);
  if (!pattern.ok()) {
    fields.refuse("host", "must be a host, *.domain or an address");
    TRY_VOID(fields.status());
  }
  if (pattern->any_name())
    fields.refuse("host", "must say whom the credential is for; '*' would give it to everybody");
  Binding out{.host = *pattern};
  out.port = static_cast<std::uint16_t>(fields.integer("port", 1, kMaxPort).value_or(out.port));
  out.path_prefix = fields.text("path", kMaxText).value_or(out.path_prefix);
  if (!is_plain_path(out.path_prefix))
    fields.refuse("path", "must begin with a slash and have no '..', '//' or escapes of them");
  out.methods = fields.texts("methods", kMaxItems).value_or(Texts());
  for (auto& method : out.methods) {
    std::transform(method.begin(), method.end(), method.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  }
  out.cleartext = fields.boolean("cleartext").value_or(false);
  out.sandboxes = fields.texts("sandboxes", kMaxItems).value_or(Texts());
  out.templates = fields.texts("templates", kMaxItems).value_or(Texts());
  if (auto places = fields.object("placeholder"); places) {
    out.by_placeholder = true;
    out.places = read_places(*places);
    out.variable = places->text("variable", kMaxText).value_or("");
    if (!out.variable.empty() && !valid_variable(out.variable))
      fields.refuse("placeholder", "variable: must be a name of letters, digits and '_'");
  }
  TRY_VOID(fields.status());
  return out;
}

json::object write_binding(const Binding& binding) {
  json::object out{{"host", binding.host.text()}, {"port", binding.port}, {"path", binding.path_prefix}};
  auto put = [](json::object& to, std::string_view key, const Texts& list) {
    if (!list.empty()) to[key] = json::value_from(list);
  };
  put(out, "methods", binding.methods);
  put(out, "sandboxes", binding.sandboxes);
  put(out, "templates", binding.templates);
  if (binding.cleartext) out["cleartext"] = true;
  if (binding.by_placeholder) {
    json::object places;
    put(places, "headers", binding.places.headers);
    put(places, "query", binding.places.query);
    put(places, "body", binding.places.body);
    if (binding.places.path) places["path"] = true;
    if (!binding.variable.empty()) places["variable"] = binding.variable;
    out["placeholder"] = std::move(places);
  }
  return out;
}

bool is_for(const Binding& binding, std::string_view tenant, std::string_view sandbox,
            std::string_view template_id) {
  if (binding.tenant != tenant) return false;
  if (binding.sandboxes.empty() && binding.templates.empty()) return true;
  return holds(binding.sandboxes, sandbox) || holds(binding.templates, template_id);
}

std::vector<const Binding*> find(const std::vector<Binding>& all, const BindingRequest& request) {
  std::vector<const Binding*> out;
  for (const auto& binding : all) {
    if (matches(binding, request)) out.push_back(&binding);
  }
  std::sort(out.begin(), out.end(), [&request](const Binding* a, const Binding* b) {
    auto one = specificity(*a, request), other = specificity(*b, request);
    return one != other ? one > other : a < b;  // of equals the older
  });
  return out;
}

bool equally_specific(const Binding& a, const Binding& b) {
  auto meet = [](const Texts& one, const Texts& other) {
    return std::any_of(one.begin(), one.end(), [&](const std::string& text) { return holds(other, text); });
  };
  auto everyone = [](const Binding& binding) {
    return binding.sandboxes.empty() && binding.templates.empty();
  };
  bool same_place = a.host.text() == b.host.text() && a.port == b.port && a.path_prefix == b.path_prefix;
  bool methods = (a.methods.empty() && b.methods.empty()) || meet(a.methods, b.methods);
  bool sandboxes =
      (everyone(a) && everyone(b)) || meet(a.sandboxes, b.sandboxes) || meet(a.templates, b.templates);
  return a.tenant == b.tenant && same_place && methods && sandboxes;
}

bool is_brokered(const std::vector<Binding>& all, const BindingRequest& request) {
  return std::any_of(all.begin(), all.end(), [&request](const Binding& binding) {
    return sandbox_matches(binding, request) && binding.host.matches(request.host);
  });
}

bool paths_matter(const std::vector<Binding>& all, const BindingRequest& request) {
  return std::any_of(all.begin(), all.end(), [&request](const Binding& binding) {
    return sandbox_matches(binding, request) && binding.host.matches(request.host) &&
           binding.path_prefix != "/";
  });
}

}  // namespace atl::gateway::vault
