// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/service_front.h"

#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

TEST(ServiceFront, ReadsWhichServiceIsMeant) {
  struct Case {
    const char* target;
    const char* name;
    const char* rest;
  };
  for (const auto& [target, name, rest] : {Case{"/svc/a", "a", ""},
                                           {"/svc/a/", "a", "/"},
                                           {"/svc/a?x=/y", "a", "?x=/y"},
                                           {"/svc/a/v1/x?y=1", "a", "/v1/x?y=1"}}) {
    auto read = read_service_target(target);
    ASSERT_TRUE(read) << target;
    EXPECT_EQ(read->name, name);
    EXPECT_EQ(read->rest, rest);
  }
  for (const char* target : {"/", "/svc", "/svc/", "/svc//a", "/svc/?a", "/other/a", "*", ""})
    EXPECT_FALSE(read_service_target(target)) << target;
}

TEST(ServiceFront, OnlyTheGatewaysOwnNameAndAddressAreItself) {
  for (const char* self : {"atoll.internal", "ATOLL.internal.", "169.254.0.22", "0xa9fe0016"})
    EXPECT_TRUE(is_gateway_itself(*parse_authority(self, 80))) << self;
  for (const char* other : {"a.atoll.internal", "atoll.internal.example", "169.254.0.21", "10.0.0.1"})
    EXPECT_FALSE(is_gateway_itself(*parse_authority(other, 80))) << other;
}

}  // namespace
}  // namespace atl::gateway
