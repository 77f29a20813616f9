// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/sandbox_api.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/parse.h"
#include "base/text.h"
#include "model/sandbox.h"

namespace atl::cli {
namespace {

json::value create_body(const CreateOptions& options) {
  json::object body{{"templateID", options.template_name}, {"timeout", options.lifetime.count()}};
  if (!options.environment.empty()) body["envVars"] = json::value_from(options.environment);
  if (!options.metadata.empty()) body["metadata"] = json::value_from(options.metadata);
  if (!options.internet) body["allow_internet_access"] = false;
  if (!options.risk.empty()) body["risk"] = options.risk;
  if (!options.isolation.empty()) body["isolation"] = options.isolation;
  if (options.idle_timeout) body["idleTimeout"] = options.idle_timeout->count();
  return body;
}

Error about_create(Error error, const std::string& name) {
  if (constexpr std::string_view kAboutTime = "timeout: "; error.message().starts_with(kAboutTime)) {
    return make_error(error.code(), "the lifetime in seconds {}", error.message().substr(kAboutTime.size()));
  }
  // Other things may be missing, too: a link, a file of the build.
  if (error.word() != "template_not_found") return error;
  return make_error(Code::kNotFound, "there is no template '{}'", printable(name))
      .with_word("template_not_found")
      .with_hint("list templates with 'atoll template list'");
}

}  // namespace

void add_isolation_options(CLI::App& app, std::string& risk, std::string& isolation) {
  app.add_option("--risk", risk, "of what runs in it: low, medium or high; a weaker tier is never given")
      ->type_name("RISK")
      ->check(CLI::IsMember({"low", "medium", "high"}));
  app.add_option("--isolation", isolation, "the tier, or a stronger one: container, gvisor or microvm")
      ->type_name("TIER")
      ->check(CLI::IsMember({"container", "gvisor", "microvm"}));
}

std::string describe_activity(const json::value& sandbox, WallTime now) {
  const json::value* activity = find_at(sandbox, "activity");
  if (activity == nullptr || !activity->is_object()) return "-";
  std::string because = text_at(*activity, "because"), detail = text_at(*activity, "detail");
  auto since = parse_rfc3339(text_at(*activity, "since"));
  std::string ago;
  if (since) ago = format_duration(std::chrono::duration_cast<std::chrono::seconds>(now - *since));
  if (because == "process" && !detail.empty()) return detail;
  if (because == "cpu") return "uses the processor: " + detail;
  if (because == "request") return "requests: " + detail;
  if (because == "egress") return "requests to the outside: " + detail;
  if (because == "unknown") return "its guest daemon or the gateway does not answer";
  if (because == "recent") return "used " + ago + " ago";
  if (because == "no_idle_timeout") return "no idle timeout";
  if (because == "idle") return "no work, for " + ago;
  if (because == "asked") return "was asked to, for " + ago;
  if (because == "deadline") return "its time was over, for " + ago;
  return because.empty() ? "-" : because;
}

Task<Result<std::shared_ptr<GuestClient>>> create_sandbox(std::shared_ptr<ApiClient> api,
                                                          CreateOptions options, std::string user) {
  json::value body = create_body(options);
  auto reply = co_await api->call("POST", "/v2/sandboxes", std::move(body));
  if (!reply.ok()) co_return about_create(std::move(reply).error(), options.template_name);
  std::string id = text_at(reply->body, "sandboxID");
  if (!model::valid_sandbox_id(id))
    co_return make_error(Code::kCorrupt, "the answer to create has no sandbox id");
  std::string token = text_at(reply->body, "envdAccessToken");
  co_return std::make_shared<GuestClient>(std::move(api), std::move(id), std::move(token), std::move(user));
}

Task<Result<void>> kill_sandbox(std::shared_ptr<ApiClient> api, std::string sandbox) {
  if (!model::valid_sandbox_id(sandbox)) {
    co_return make_error(Code::kInvalid, "'{}' is not a sandbox id", printable(sandbox))
        .with_hint("list ids with 'atoll ps'");
  }
  std::string path = "/sandboxes/" + sandbox;
  auto reply = co_await api->call("DELETE", path);
  if (reply.ok()) co_return success();
  if (reply.error().code() != Code::kNotFound) co_return std::move(reply).error();
  co_return make_error(Code::kNotFound, "there is no sandbox {}", sandbox)
      .with_hint("list them with 'atoll ps'");
}

Task<Result<void>> set_lifetime(std::shared_ptr<ApiClient> api, std::string sandbox,
                                std::chrono::seconds lifetime) {
  std::string path = "/sandboxes/" + sandbox + "/timeout";
  json::value body = json::object({{"timeout", lifetime.count()}});
  auto reply = co_await api->call("POST", path, std::move(body));
  if (!reply.ok()) co_return std::move(reply).error();
  co_return success();
}

}  // namespace atl::cli
