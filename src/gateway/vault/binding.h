// SPDX-License-Identifier: Apache-2.0
//
// Binding: which requests a credential is for. Credentials are never chosen by what a request says about
// itself, only by whom it goes to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "gateway/names/host_pattern.h"

namespace atl::gateway::vault {

// Where a placeholder of this credential may stand in a request (placeholder.h). Nowhere when all are empty.
struct Places {
  std::vector<std::string> headers;  // lower case
  std::vector<std::string> query;    // keys
  bool path = false;
  std::vector<std::string> body;  // JSON pointers (RFC 6901); "" is anywhere in a body of any type
  bool any() const { return !headers.empty() || !query.empty() || path || !body.empty(); }
};

// One rule of who may have a credential.
struct Binding {
  std::string id;  // "bnd_..."
  std::string tenant;
  std::string secret;  // the id of a secret of that tenant
  HostPattern host;
  std::uint16_t port = 443;
  std::string path_prefix = "/";     // whole segments: "/v1" is for "/v1" and "/v1/x", not for "/v12"
  std::vector<std::string> methods;  // upper case; empty: all
  bool cleartext = false;            // also to plain http
  // Which sandboxes of the tenant: these, or those of these templates; both empty: all.
  std::vector<std::string> sandboxes;
  std::vector<std::string> templates;
  // Set by itself (false) or only where the program inside wrote a placeholder (true).
  bool by_placeholder = false;
  Places places;
  std::string variable;  // of the environment inside, that holds the placeholder; empty: none
};

// {"host": "api.example.com", "port": 443, "path": "/v1", "methods": [...], "sandboxes": [...], "templates":
// [...], "cleartext": false, "placeholder": {"headers": [...], "query": [...], "path": true, "body":
// ["/a/b"], "variable": "EXAMPLE_API_KEY"}}. Unknown fields are refused.
Result<Binding> parse_binding(const boost::json::object& text);
boost::json::object write_binding(const Binding& binding);

// True when nothing in `path` leads elsewhere: no dot segments, "//", backslashes or escapes of them.
// It may have parameters (";x").
bool is_plain_path(std::string_view path);

// True when `path` (percent-encoded, without a query) is `prefix` or below it, by whole segments, for every
// server. A path that servers read in different ways ("..", "%2f", "//", ";", a backslash) is only below "/".
bool path_is_within(std::string_view path, std::string_view prefix);

// What a binding is chosen by. `host` and `port` are those of the one authority of the request: the one that
// is dialled (names/authority.h).
struct BindingRequest {
  std::string_view tenant;
  std::string_view sandbox;
  std::string_view template_id;
  const Host& host;
  std::uint16_t port = 0;
  bool secure = false;      // https
  std::string_view method;  // upper case
  std::string_view path;    // as it will be sent, still percent-encoded, without the query
};

// Those that match, the most specific first: an exact host before a wildcard, a longer path before a shorter,
// named sandboxes before templates before all. A path that servers read in different ways ("..", "%2f", "//",
// a backslash) matches no binding with a path.
std::vector<const Binding*> find(const std::vector<Binding>& all, const BindingRequest& request);

// True when some request matches both and neither is more specific for it.
bool equally_specific(const Binding& a, const Binding& b);
// True when this binding is for that sandbox, whatever it asks for.
bool is_for(const Binding& binding, std::string_view tenant, std::string_view sandbox,
            std::string_view template_id);

// True when a credential may go to this host at any port, path or method, for this sandbox. TLS to it must
// then be opened wherever it goes: what stays closed could carry a placeholder out unseen.
bool is_brokered(const std::vector<Binding>& all, const BindingRequest& request);

// True when a credential for this host is for a part of its paths only. Then a path that servers read in
// different ways must not go there with any other credential: one of the readings may belong to the first.
bool paths_matter(const std::vector<Binding>& all, const BindingRequest& request);

}  // namespace atl::gateway::vault
