// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/isolation_rule.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/api_client.h"

namespace atl::cli {

void add_isolation_change(CLI::App& app, IsolationChange& change) {
  CLI::IsMember words({"container", "gvisor", "microvm", "low", "medium", "high", "none"});
  app.add_option("--isolation", change.standard,
                 "tier or risk of sandboxes for which nobody asks; none: say nothing")
      ->type_name("WORD")
      ->check(words);
  app.add_option("--min-isolation", change.minimum,
                 "tier or risk that no sandbox gets less than; none: no minimum")
      ->type_name("WORD")
      ->check(words);
}

void put_isolation(json::object& body, const IsolationChange& change) {
  if (!change.standard.empty()) body["isolation"] = change.standard;
  if (!change.minimum.empty()) body["minIsolation"] = change.minimum;
}

Result<json::object> change_json(const IsolationChange& change) {
  json::object body;
  put_isolation(body, change);
  if (!body.empty()) return body;
  return make_error(Code::kInvalid, "say what to change")
      .with_word("usage")
      .with_hint("give --isolation, --min-isolation, or both");
}

std::string rule_text(const json::value& row) {
  std::string standard = text_at(row, "isolation"), minimum = text_at(row, "minIsolation");
  if (minimum.empty()) return standard.empty() ? "-" : standard;
  return standard.empty() ? "at least " + minimum : fmt::format("{}, at least {}", standard, minimum);
}

}  // namespace atl::cli
