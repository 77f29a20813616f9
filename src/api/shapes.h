// SPDX-License-Identifier: Apache-2.0
//
// The JSON shapes of the API (api/openapi.yaml), made from the model's values.
#pragma once

#include "api/router.h"

namespace atl::api {

json::object sandbox_created(const Config& config, const model::SandboxRow& row);  // Sandbox
json::object sandbox_listed(const model::SandboxRow& row);                         // ListedSandbox
json::object sandbox_detail(const Config& config, const model::SandboxRow& row);   // SandboxDetail
json::object sandbox_full(const model::SandboxRow& row);  // our own, with state and outcome
// Why it is awake or asleep.
json::object activity_json(const control::Wakefulness& why);
json::object metric(const control::MetricSample& sample, const model::SandboxRow& row);
json::object log_entry(const model::Event& event);
json::object event_json(const model::Event& event);
json::object key_json(const model::ApiKey& key);
json::object tenant_json(const model::Tenant& tenant);
json::object template_json(const control::Catalog& catalog, const model::Template& row);
json::object snapshot_json(const control::SnapshotEntry& entry);  // SnapshotInfo and more
json::object build_json(const model::Build& build);
json::array missing_layers(std::uint64_t bits);  // names of bits of Feature
// What the host can do and cannot, as far as everybody may know.
json::object host_json(const Services& services, const control::SandboxService::Status& status);
inline constexpr char kErrorEvent[] = "sandbox.failed";  // the one of level `error`; all others are `info`
std::string_view log_level(const model::Event& event);

}  // namespace atl::api
