// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/service.h"

#include <cctype>

#include "gateway/vault/binding.h"
#include "gateway/vault/vault.h"
#include "http/json.h"

namespace atl::gateway::vault {
namespace {

constexpr std::size_t kMaxText = 2048;

// The parts of "https://host:port/base"; false when it is not of that form.
bool read_url(Service& out) {
  constexpr std::string_view kHttps = "https://", kHttp = "http://";
  std::string_view rest = out.url;
  out.secure = rest.starts_with(kHttps);
  if (!out.secure && !rest.starts_with(kHttp)) return false;
  rest.remove_prefix(out.secure ? kHttps.size() : kHttp.size());
  auto slash = std::min(rest.find('/'), rest.size());
  auto authority = parse_authority(rest.substr(0, slash), usual_port(out.secure));
  if (!authority.ok()) return false;
  out.authority = std::move(*authority);
  out.base = rest.substr(slash);
  // The path must mean the same to every server, and have no query behind it.
  return out.base.empty() || (is_plain_path(out.base) && out.base.find_first_of("?# ") == out.base.npos);
}

}  // namespace

Result<Service> parse_service(const boost::json::object& text) {
  http::Fields fields(text);
  for (const auto& [key, value] : text) {
    if (key != "name" && key != "url") fields.refuse(std::string(key), "is not known");
  }
  Service out;
  auto name = canonical_name(fields.text("name", kMaxText).value_or(""));
  if (!name.ok() || std::isalnum(static_cast<unsigned char>(name->front())) == 0) {
    fields.refuse("name",
                  "must be 1 to 128 letters, digits, '.', '_' and '-', beginning with a letter or digit");
  } else {
    out.name = std::move(*name);
  }
  out.url = fields.text("url", kMaxText).value_or("");
  while (out.url.ends_with('/')) out.url.pop_back();
  if (!read_url(out))
    fields.refuse("url", "must be like https://api.example.com or https://api.example.com/v1");
  TRY_VOID(fields.status());
  return out;
}

boost::json::object write_service(const Service& service) {
  return {{"name", service.name}, {"url", service.url}};
}

}  // namespace atl::gateway::vault
