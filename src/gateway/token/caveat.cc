// SPDX-License-Identifier: Apache-2.0
#include "gateway/token/caveat.h"

#include <algorithm>

#include "gateway/vault/binding.h"
#include "http/json.h"

namespace atl::gateway::token {
namespace {

constexpr std::size_t kMaxText = 1024;
constexpr std::size_t kMaxMethods = 16;

Error narrowed(std::string_view part) {
  return make_error(Code::kDenied, "the token was narrowed, and its {} does not allow this request", part)
      .with_word("token_narrowed");
}

}  // namespace

Result<Caveat> parse_caveat(std::string_view text) {
  TRY(auto value, http::parse_json(text));
  if (!value.is_object()) return make_error(Code::kInvalid, "a caveat is a JSON object");
  http::Fields fields(value.as_object());
  static constexpr std::string_view kKnown[] = {"host", "path", "methods", "until", "label"};
  for (const auto& [key, one] : value.as_object()) {
    bool known = std::find(std::begin(kKnown), std::end(kKnown), std::string_view(key)) != std::end(kKnown);
    if (!known) fields.refuse(key, "is not known");
  }
  Caveat out;
  if (auto host = fields.text("host", kMaxText); host) {
    TRY(HostPattern pattern, parse_host_pattern(*host));
    out.host = pattern;
  }
  out.path_prefix = fields.text("path", kMaxText).value_or("");
  if (!out.path_prefix.empty() && out.path_prefix[0] != '/') fields.refuse("path", "must begin with a slash");
  if (auto methods = fields.texts("methods", kMaxMethods); methods) {
    if (methods->empty()) fields.refuse("methods", "must name a method");
    out.methods = *std::move(methods);
  }
  if (auto until = fields.text("until", kMaxText); until) {
    out.until = parse_rfc3339(*until);
    if (!out.until) fields.refuse("until", "must be a time like 2026-01-02T03:04:05Z");
  }
  out.label = fields.text("label", kMaxText).value_or("");
  TRY_VOID(fields.status());
  return out;
}

Result<void> check_caveat(const Caveat& caveat, const Use& use) {
  if (caveat.until && use.now >= *caveat.until) return narrowed("time");
  if (caveat.host && !caveat.host->matches(use.host)) return narrowed("host");
  if (!caveat.path_prefix.empty() && !vault::path_is_within(use.path, caveat.path_prefix))
    return narrowed("path");
  bool method = caveat.methods.empty() ||
                std::find(caveat.methods.begin(), caveat.methods.end(), use.method) != caveat.methods.end();
  if (!method) return narrowed("methods");
  if (!caveat.label.empty() && caveat.label != use.label) return narrowed("label");
  return success();
}

}  // namespace atl::gateway::token
