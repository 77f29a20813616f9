// SPDX-License-Identifier: Apache-2.0
#include "api/shapes.h"

#include "base/text.h"
#include "base/units.h"
#include "model/overhead.h"

namespace atl::api {
namespace {

constexpr std::size_t kListedFields = 20;

std::uint32_t cores(const model::Limits& limits) { return (limits.cpu_millis + 999) / 1000; }

json::object string_object(const model::StringMap& map) {
  json::object out;
  for (const auto& [key, value] : map) out.emplace(key, value);
  return out;
}

json::array cidr_list(const std::vector<model::Cidr>& list) {
  json::array out;
  for (const auto& cidr : list) out.emplace_back(model::format_cidr(cidr));
  return out;
}

json::object network_json(const model::SandboxRow& row) {
  json::object out;
  json::array allow = cidr_list(row.network.allow);
  for (const std::string& name : row.network.names) allow.emplace_back(name);
  out["allowOut"] = std::move(allow);
  json::array deny = cidr_list(row.network.deny);
  if (!row.network.internet) deny.emplace_back("0.0.0.0/0");
  out["denyOut"] = std::move(deny);
  for (const auto& [host, headers] : row.network.headers) {
    json::object transform{{"transform", json::object{{"headers", json::value_from(headers)}}}};
    if (!out.contains("rules")) out["rules"] = json::object();
    out["rules"].as_object()[host] = json::array{std::move(transform)};
  }
  if (!row.network.https_ports.empty()) out["httpsPorts"] = json::value_from(row.network.https_ports);
  if (row.network.proxy) {
    json::object proxy{{"address", row.network.proxy->address}};
    if (!row.network.proxy->username.empty()) proxy["username"] = row.network.proxy->username;
    out["egressProxy"] = std::move(proxy);
  }
  out["allowPublicTraffic"] = row.ingress.allow_public;
  if (!row.ingress.mask_request_host.empty()) out["maskRequestHost"] = row.ingress.mask_request_host;
  return out;
}

json::value time_or_null(WallTime time) {
  return time.ms > 0 ? json::value(format_rfc3339(time)) : json::value();
}

// The tier in force, what was asked for and by whom, and what the tier lacks on this host.
void add_isolation(json::object& out, const model::SandboxRow& row) {
  out["isolation"] = model::tier_name(row.tier);
  out["isolationAsked"] = row.asked.word.text();
  out["isolationAskedBy"] = model::asker_name(row.asked.by);
  out["missingLayers"] = missing_layers(row.missing_layers);
  out["overheadMB"] = model::overhead_of(row.tier, row.missing_layers).memory_bytes / kMiB;
}

void add_rule(json::object& out, const model::IsolationRule& rule) {
  auto word = [&out](const char* name, const std::optional<model::IsolationWord>& said) {
    out[name] = said ? json::value(said->text()) : json::value();
  };
  word("isolation", rule.standard);
  word("minIsolation", rule.minimum);
}

json::value idle_seconds(Millis time) {
  return time.count() > 0 ? json::value(time.count() / 1000) : json::value();
}

// What create, get and list have in common. The room is for all that a list says of a sandbox: an object that
// grows moves its fields each time.
json::object identity(const model::SandboxRow& row) {
  json::object out;
  out.reserve(kListedFields);
  out["sandboxID"] = row.id;
  out["templateID"] = row.template_id;
  out["clientID"] = kClientId;
  out["envdVersion"] = kEnvdVersion;
  if (!row.alias.empty()) out["alias"] = row.alias;
  add_isolation(out, row);
  return out;
}

}  // namespace

json::array missing_layers(std::uint64_t bits) {
  json::array out;
  for (const model::FeatureInfo& row : model::features()) {
    if (bits >> static_cast<unsigned>(row.feature) & 1) out.emplace_back(row.name);
  }
  return out;
}

json::object sandbox_created(const Config& config, const model::SandboxRow& row) {
  json::object out = identity(row);
  out["domain"] = config.domain;
  if (!row.access_token.empty()) out["envdAccessToken"] = row.access_token.reveal();
  if (!row.traffic_token.empty()) out["trafficAccessToken"] = row.traffic_token.reveal();
  return out;
}

json::object sandbox_listed(const model::SandboxRow& row) {
  json::object out = identity(row);
  out["startedAt"] = format_rfc3339(row.started_at);
  out["endAt"] = format_rfc3339(row.deadline);
  out["state"] = row.state == model::State::kRunning ? "running" : "paused";
  out["cpuCount"] = cores(row.limits);
  out["memoryMB"] = row.limits.memory_bytes / kMiB;
  out["diskSizeMB"] = row.limits.disk_bytes / kMiB;
  out["metadata"] = string_object(row.metadata);
  out["volumeMounts"] = json::array();
  return out;
}

json::object sandbox_detail(const Config& config, const model::SandboxRow& row) {
  json::object out = sandbox_listed(row);
  out["domain"] = config.domain;
  if (!row.access_token.empty()) out["envdAccessToken"] = row.access_token.reveal();
  out["allowInternetAccess"] = row.network.internet;
  out["network"] = network_json(row);
  bool pauses = row.lifecycle.on_timeout == model::Lifecycle::OnTimeout::kPause;
  out["idleTimeout"] = idle_seconds(row.lifecycle.idle_timeout);
  out["lifecycle"] = {{"autoResume", row.lifecycle.auto_resume}, {"onTimeout", pauses ? "pause" : "kill"}};
  return out;
}

json::object sandbox_full(const model::SandboxRow& row) {
  json::object out;
  out["id"] = row.id;
  out["state"] = model::state_name(row.state);
  out["template"] = row.alias;
  out["templateId"] = row.template_id;
  out["buildId"] = row.build;
  add_isolation(out, row);
  out["generation"] = row.generation;
  out["metadata"] = string_object(row.metadata);
  out["createdAt"] = time_or_null(row.created_at);
  out["startedAt"] = time_or_null(row.started_at);
  out["deadline"] = time_or_null(row.deadline);
  out["idleTimeout"] = idle_seconds(row.lifecycle.idle_timeout);
  out["endedAt"] = time_or_null(row.ended_at);
  out["outcome"] = row.outcome.empty() ? json::value() : json::value(row.outcome);
  out["reason"] = row.reason.empty() ? json::value() : json::value(row.reason);
  out["cpuMillis"] = row.limits.cpu_millis;
  out["memoryBytes"] = row.limits.memory_bytes;
  out["diskBytes"] = row.limits.disk_bytes;
  out["processes"] = row.limits.processes;
  out["openFiles"] = row.limits.open_files;
  out["labels"] = json::value_from(row.labels);
  return out;
}

json::object activity_json(const control::Wakefulness& why) {
  json::object out;
  out["awake"] = why.awake;
  out["because"] = why.because;
  out["detail"] = why.detail.empty() ? json::value() : json::value(why.detail);
  out["since"] = time_or_null(why.since);
  out["sleepsAt"] = why.sleeps_at ? json::value(format_rfc3339(*why.sleeps_at)) : json::value();
  return out;
}

json::object metric(const control::MetricSample& sample, const model::SandboxRow& row) {
  json::object out;
  out["timestamp"] = format_rfc3339(sample.at);
  out["timestampUnix"] = sample.at.ms / 1000;
  out["cpuCount"] = cores(row.limits);
  out["cpuUsedPct"] = sample.cpu_pct;
  out["memUsed"] = sample.memory_used;
  out["memTotal"] = sample.memory_total;
  out["memCache"] = sample.memory_cache;
  out["diskUsed"] = sample.disk_used;
  out["diskTotal"] = sample.disk_total;
  return out;
}

std::string_view log_level(const model::Event& event) { return event.type == kErrorEvent ? "error" : "info"; }

json::object log_entry(const model::Event& event) {
  json::object out;
  out["timestamp"] = format_rfc3339(event.at);
  out["message"] = event.message;
  out["level"] = log_level(event);
  json::object fields;
  fields["logger"] = "atoll";
  fields["event"] = event.type;
  out["fields"] = std::move(fields);
  return out;
}

json::object event_json(const model::Event& event) {
  json::object out;
  out["seq"] = event.seq;
  out["at"] = format_rfc3339(event.at);
  out["type"] = event.type;
  out["sandbox"] = event.sandbox.empty() ? json::value() : json::value(event.sandbox);
  out["message"] = event.message;
  boost::system::error_code error;
  json::value data = json::parse(event.data, error);
  out["data"] = error ? json::value(json::object()) : std::move(data);
  return out;
}

json::object key_json(const model::ApiKey& key) {
  json::object out;
  out["id"] = key.id;
  out["name"] = key.name;
  out["prefix"] = key.prefix;
  out["role"] = model::role_name(key.role);
  out["createdAt"] = format_rfc3339(key.created_at);
  return out;
}

json::object tenant_json(const model::Tenant& tenant) {
  json::object out;
  out["id"] = tenant.id;
  out["name"] = tenant.name;
  auto limit = [&out](const char* name, std::uint64_t value) {
    out[name] = value == 0 ? json::value() : json::value(value);
  };
  limit("maxSandboxes", tenant.limit.sandboxes);
  limit("maxMemoryMB", tenant.limit.memory_bytes / kMiB);
  limit("maxCpuMillis", tenant.limit.cpu_millis);
  limit("maxProcesses", tenant.limit.processes);
  limit("maxDiskMB", tenant.limit.disk_bytes / kMiB);
  add_rule(out, tenant.isolation);
  out["createdAt"] = format_rfc3339(tenant.created_at);
  return out;
}

json::object template_json(const control::Catalog& catalog, const model::Template& row) {
  json::object out;
  std::string name = row.name_space.empty() ? row.alias : row.name_space + "/" + row.alias;
  out["templateID"] = row.id;
  out["names"] = json::array({json::value(name)});
  out["aliases"] = json::array({json::value(row.alias)});
  out["public"] = row.is_public;
  auto tag = row.tags.find(model::kDefaultTag);
  const model::Build* build = tag == row.tags.end() ? nullptr : catalog.build(tag->second);
  model::Limits limits = build ? build->limits : model::Limits();
  out["buildID"] = build ? build->id : std::string();
  out["buildStatus"] = build ? "ready" : "error";
  out["cpuCount"] = cores(limits);
  out["memoryMB"] = limits.memory_bytes / kMiB;
  out["diskSizeMB"] = limits.disk_bytes / kMiB;
  out["createdAt"] = format_rfc3339(row.created_at);
  out["updatedAt"] = format_rfc3339(row.updated_at);
  out["createdBy"] = nullptr;
  out["lastSpawnedAt"] = time_or_null(row.last_spawned_at);
  out["spawnCount"] = row.spawn_count;
  out["buildCount"] = catalog.builds_of(row.id).size();
  out["envdVersion"] = kEnvdVersion;
  out["idleTimeout"] = idle_seconds(build ? build->idle_timeout : Millis(0));
  out["poolSize"] = row.pool_size ? json::value(*row.pool_size) : json::value();
  add_rule(out, row.isolation);
  json::object tags;
  for (const auto& [name_of_tag, id] : row.tags) tags.emplace(name_of_tag, id);
  out["tags"] = std::move(tags);
  return out;
}

json::object snapshot_json(const control::SnapshotEntry& entry) {
  const model::Snapshot& row = entry.row;
  json::object out;
  out["snapshotID"] = control::snapshot_reference(row);
  json::array names;
  if (!row.name.empty()) names.emplace_back(control::snapshot_reference(row));
  out["names"] = std::move(names);
  out["id"] = row.id;
  out["sandboxID"] = row.sandbox;
  out["template"] = row.alias;
  out["buildID"] = row.build.id;
  out["isolation"] = model::tier_name(row.tier);
  out["memory"] = row.memory;
  out["usable"] = !entry.missing;
  out["sizeBytes"] = row.stored_bytes;
  out["diskSizeMB"] = row.build.limits.disk_bytes / kMiB;
  out["createdAt"] = format_rfc3339(row.created_at);
  return out;
}

json::object build_json(const model::Build& build) {
  json::object out;
  out["buildID"] = build.id;
  out["status"] = "ready";
  out["createdAt"] = format_rfc3339(build.created_at);
  out["updatedAt"] = format_rfc3339(build.created_at);
  out["finishedAt"] = format_rfc3339(build.created_at);
  out["cpuCount"] = cores(build.limits);
  out["memoryMB"] = build.limits.memory_bytes / kMiB;
  out["diskSizeMB"] = build.limits.disk_bytes / kMiB;
  out["envdVersion"] = kEnvdVersion;
  return out;
}

}  // namespace atl::api
