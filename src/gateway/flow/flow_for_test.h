// SPDX-License-Identifier: Apache-2.0
//
// A gateway for tests with all its parts, and a sandbox "s" in it that asks api.example.
#pragma once

#include "gateway/flow/http_flow.h"
#include "gateway/flow/parts_for_test.h"

namespace atl::gateway::testing {

inline Task<> serve(HttpFlow& flow, net::StreamPtr stream) {
  http::Handler handler = [&flow](http::Exchange& exchange) { return flow.handle(exchange); };
  http::ServerLimits limits;
  co_await http::serve_http1(std::move(stream), "", false, limits, handler);
}

class FlowWorld : public PartsWorld {
 public:
  explicit FlowWorld(const std::string& rules) {
    put(rules);
    parts.registry.heard();
  }

  // The sandbox, with these rules of its tenant from now on.
  void put(const std::string& rules) {
    auto set =
        policy::parse_rule_set(R"({"version":1,"rules":[)" + rules + "]}", policy::Source::kTenant).value();
    Sandbox out;
    out.id = "s";
    out.tenant = "t";
    out.generation = 1;
    out.policy = policy::Policy::compile({std::move(set)}).value();
    parts.registry.put(std::move(out));
  }
  // Answers a request as one that came through opened TLS.
  Task<> handle(http::Exchange& exchange) {
    HttpOrigin origin;
    origin.secure = true;
    HttpFlow flow(parts, Inbound{parts.registry.find("s"), "", authority("api.example:443")}, origin);
    co_await flow.handle(exchange);
  }
  http::Handler handler() {
    return [this](http::Exchange& exchange) { return handle(exchange); };
  }
};

}  // namespace atl::gateway::testing
