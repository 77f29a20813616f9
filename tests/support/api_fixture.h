// SPDX-License-Identifier: Apache-2.0
//
// What tests of the API share: calls over real HTTP, and a clock that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/api_world.h"
#include "support/fake_vault.h"

namespace atl::test {

class ApiFixture : public ::testing::Test {
 protected:
  ApiAnswer call(const std::string& method, const std::string& target, std::string body = "",
                 std::string key = "", std::vector<http::Header> headers = {}) {
    return api_.call(method, target, std::move(body), std::move(key), std::move(headers));
  }
  void advance(Millis time) {
    api_.world.clock.advance(time);
    api_.world.service->fire_deadlines();
  }
  std::vector<std::string> ids(const ApiAnswer& answer) {
    std::vector<std::string> out;
    for (const auto& row : answer.body.as_array()) out.emplace_back(row.at("sandboxID").as_string());
    return out;
  }
  ApiWorld api_;
};

// With a gateway that the test plays.
class GatewayApiFixture : public ApiFixture {
 protected:
  GatewayApiFixture() : gateway_(api_.world.io), tenant_(api_.world.identity->tenants().front()) {
    api_.services.vault = gateway_.link();
  }
  // What it was asked last; empty: nothing.
  std::string last() const { return gateway_.asked.empty() ? "" : gateway_.asked.back(); }

  FakeVault gateway_;
  const model::Tenant tenant_;
};

}  // namespace atl::test
