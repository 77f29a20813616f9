// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <boost/json.hpp>

namespace atl::gateway {
namespace {

using State = ApprovalState;

std::string word_of(State state) {
  Approval approval;
  approval.id = "apr_1";
  approval.state = state;
  approval.question.rule = "tenant/pay";
  HttpRefusal refusal = approval_refusal(403, approval);
  EXPECT_EQ(refusal.head.status, 403);
  EXPECT_EQ(refusal.head.headers.find("x-atoll-approval"), "apr_1");
  EXPECT_EQ(refusal.head.headers.find("x-atoll-rule"), "tenant/pay");
  EXPECT_EQ(refusal.head.headers.find("x-should-retry"), "false");
  auto body = boost::json::parse(refusal.body).as_object();
  EXPECT_EQ(body.at("approval").at("id"), "apr_1");
  EXPECT_EQ("approval_" + std::string(body.at("approval").at("state").as_string()),
            std::string(body.at("error_code").as_string()));
  return std::string(body.at("error_code").as_string());
}

TEST(ApprovalRefusal, EachStateHasItsOwnWord) {
  std::set<std::string> words;
  for (State state : {State::kPending, State::kDenied, State::kExpired, State::kCancelled, State::kUsed})
    words.insert(word_of(state));
  EXPECT_EQ(words.size(), 5u);
  // A grant that came too late to be used has expired; nobody denied anything.
  EXPECT_EQ(word_of(State::kApproved), "approval_expired");
}

}  // namespace
}  // namespace atl::gateway
