// SPDX-License-Identifier: Apache-2.0
//
// What tests of the API share: calls over real HTTP, and a clock that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/api_world.h"

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

}  // namespace atl::test
