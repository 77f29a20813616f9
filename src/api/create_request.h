// SPDX-License-Identifier: Apache-2.0
//
// The bodies of create and of the network update, read into typed values.
#pragma once

#include "api/router.h"

namespace atl::api {

// The two generations of create differ in defaults only (e2b-protocol §2.3).
enum class Generation : std::uint8_t { kV1, kV2 };

Result<control::CreateSpec> read_create(Millis max_timeout, const Call& call, Generation generation);

// The caller's words for how strongly to isolate, from the body (`isolation`, `risk`) and the headers
// X-Atoll-Isolation and X-Atoll-Risk. Those that name the same must agree.
Result<void> read_isolation(const Call& call, Fields& body, std::optional<model::IsolationWord>& isolation,
                            std::optional<model::IsolationWord>& risk);

// Seconds as in the E2B API, from `min` up to `max_timeout`. nullopt when absent.
std::optional<Millis> read_timeout(Millis max_timeout, Fields& fields, std::int64_t min);

// `idleTimeout` in seconds; 0 is a value: it does not sleep. nullopt when absent.
std::optional<Millis> read_idle_timeout(Millis max_timeout, Fields& fields);

// `labels` of commands: valid names, each once. nullopt when absent.
std::optional<std::vector<std::string>> read_labels(Fields& fields);

// PUT /sandboxes/{id}/network: everything that is not named is cleared.
Result<model::NetworkRules> read_network_update(const Call& call);

// kUnsupported with the word gateway_off, for rules that only the gateway can keep, where there is none.
Result<void> check_gateway(const control::SandboxService& sandboxes, const model::NetworkRules& rules);

// kUnsupported with the word not_implemented_yet, for fields and calls that a later version brings.
Error not_yet(std::string_view what, std::string_view hint);

}  // namespace atl::api
