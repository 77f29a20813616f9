// SPDX-License-Identifier: Apache-2.0
//
// What the host can do: for everybody in short, for administrators feature by feature, and as metrics.
#include <algorithm>

#include "api/e2b.h"
#include "api/shapes.h"

namespace atl::api {
namespace {

constexpr model::Tier kTiers[] = {model::Tier::kContainer, model::Tier::kGvisor, model::Tier::kMicrovm};

// Not of the host: the operator chose to let sandboxes out directly.
constexpr char kGatewayLayer[] = "gateway";

using Status = control::SandboxService::Status;

bool usable(const Status& status, model::Tier tier) {
  return status.runner_connected && (status.runner.tiers & model::tiers_of(tier)) != 0;
}

bool being_tested(const Status& status, model::Tier tier) {
  return status.runner_connected && (status.runner.tested_tiers & model::tiers_of(tier)) != 0;
}

std::string obstacle(const Status& status, model::Tier tier) {
  return status.runner.obstacle[static_cast<std::size_t>(tier)].str();
}

json::array names_of(model::Tiers tiers) {
  json::array out;
  for (model::Tier tier : kTiers) {
    if (tiers & model::tiers_of(tier)) out.emplace_back(model::tier_name(tier));
  }
  return out;
}

json::object feature_json(const model::FeatureInfo& row, std::uint8_t error) {
  json::object out;
  out["name"] = row.name;
  out["title"] = row.title;
  out["present"] = error == 0;
  out["error"] = error == 0 ? json::value() : json::value(model::feature_error(error));
  out["neededBy"] = names_of(row.needed);
  out["usedBy"] = names_of(row.used);
  out["layer"] = row.layer;
  out["remedy"] = error == 0 ? json::value() : json::value(row.remedy);
  return out;
}

json::object tier_json(const Status& status, model::Tier tier) {
  json::object out;
  out["isolation"] = model::tier_name(tier);
  out["usable"] = usable(status, tier);
  out["beingTested"] = being_tested(status, tier);
  std::string why = being_tested(status, tier) ? "it is being tested" : obstacle(status, tier);
  if (why.empty() && !usable(status, tier)) why = "this host's runner does not offer it";
  out["obstacle"] = why.empty() ? json::value() : json::value(why);
  out["missingLayers"] = missing_layers(model::missing_layers(status.runner.features, tier));
  return out;
}

Result<Status> with_runner(Services& services) {
  Status status = services.sandboxes.status();
  if (status.runner_connected) return status;
  return make_error(Code::kUnavailable, "the runner is not reachable, so nothing can be said about the host")
      .with_word("runner_unavailable");
}

Task<Result<Answer>> host(Services& services, Call&) {
  CO_TRY(Status status, with_runner(services));
  co_return json_answer(200, host_json(services, status));
}

Task<Result<Answer>> posture(Services& services, Call&) {
  CO_TRY(Status status, with_runner(services));
  json::object out = host_json(services, status);
  json::array tiers, features;
  for (model::Tier tier : kTiers) tiers.push_back(tier_json(status, tier));
  for (const model::FeatureInfo& row : model::features())
    features.push_back(
        feature_json(row, status.runner.features.error[static_cast<std::size_t>(row.feature)]));
  out["tiers"] = std::move(tiers);
  out["features"] = std::move(features);
  co_return json_answer(200, out);
}

// In the text format of Prometheus. Without a runner nothing is known of the host, and nothing is said.
std::string metrics_text(const Status& status) {
  std::string out =
      "# HELP atoll_runner_connected Whether control is connected to the runner.\n"
      "# TYPE atoll_runner_connected gauge\n";
  out += fmt::format("atoll_runner_connected {}\n", status.runner_connected ? 1 : 0);
  if (!status.runner_connected) return out;
  out +=
      "# HELP atoll_host_tier Whether sandboxes of this tier can be made.\n"
      "# TYPE atoll_host_tier gauge\n";
  for (model::Tier tier : kTiers)
    out += fmt::format("atoll_host_tier{{tier=\"{}\"}} {}\n", model::tier_name(tier),
                       usable(status, tier) ? 1 : 0);
  out +=
      "# HELP atoll_host_tier_being_tested Whether the runner is still finding out about this tier.\n"
      "# TYPE atoll_host_tier_being_tested gauge\n";
  for (model::Tier tier : kTiers)
    out += fmt::format("atoll_host_tier_being_tested{{tier=\"{}\"}} {}\n", model::tier_name(tier),
                       being_tested(status, tier) ? 1 : 0);
  out +=
      "# HELP atoll_host_feature Whether this host has what the tier needs or profits from.\n"
      "# TYPE atoll_host_feature gauge\n";
  for (const model::FeatureInfo& row : model::features()) {
    for (model::Tier tier : kTiers) {
      if (((row.needed | row.used) & model::tiers_of(tier)) == 0) continue;
      out += fmt::format("atoll_host_feature{{feature=\"{}\",tier=\"{}\"}} {}\n", row.name,
                         model::tier_name(tier), model::works(status.runner.features, row.feature) ? 1 : 0);
    }
  }
  return out;
}

Task<Result<Answer>> metrics(Services& services, Call&) {
  Answer answer;
  answer.body = metrics_text(services.sandboxes.status());
  answer.headers.add("content-type", "text/plain; version=0.0.4; charset=utf-8");
  co_return answer;
}

}  // namespace

json::object host_json(const Services& services, const Status& status) {
  json::object out;
  json::object unusable;  // the check that failed, of tiers that the runner looked for
  model::Tiers tiers = 0, tested = 0;
  for (model::Tier tier : kTiers) {
    if (usable(status, tier)) tiers |= model::tiers_of(tier);
    if (being_tested(status, tier)) tested |= model::tiers_of(tier);
    std::string why = obstacle(status, tier);
    if (!usable(status, tier) && !why.empty()) unusable[model::tier_name(tier)] = why;
  }
  static constexpr const char* kCgroups[] = {"unknown", "v1", "hybrid", "v2"};
  bool known = status.runner_connected;
  const model::HostDefault& setting = services.sandboxes.options().default_isolation;
  out["isolation"] = names_of(tiers);
  out["unusable"] = std::move(unusable);
  out["beingTested"] = names_of(tested);
  out["defaultIsolation"] = model::host_default_name(setting);
  out["defaultInForce"] = known ? json::value(model::tier_name(status.default_tier)) : json::value();
  // The default is weaker than it would be on a whole host.
  out["degraded"] = known && !setting.tier && status.default_tier == model::Tier::kContainer;
  out["cgroups"] = kCgroups[known ? std::min<int>(status.runner.cgroup_mode, 3) : 0];
  out["landlockAbi"] = known ? status.runner.landlock_abi : 0;
  json::array layers =
      missing_layers(known ? model::missing_layers(status.runner.features, status.default_tier) : 0);
  bool direct = !services.sandboxes.options().connect_gateway;
  if (known && direct) layers.emplace_back(kGatewayLayer);
  out["missingLayers"] = std::move(layers);
  return out;
}

std::vector<Route> host_routes() {
  return {
      {"GET", "/v1/host", Auth::kKey, Body::kNone, host},
      {"GET", "/v1/host/posture", Auth::kAdmin, Body::kNone, posture},
      {"GET", "/metrics", Auth::kAdmin, Body::kNone, metrics},
  };
}

}  // namespace atl::api
