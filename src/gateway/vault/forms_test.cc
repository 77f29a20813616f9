// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/forms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/text.h"
#include "gateway/vault/credential_for_test.h"
#include "http/message.h"

namespace atl::gateway::vault {
namespace {

bool finds(const std::vector<Secret>& all, std::string_view text) {
  return std::any_of(all.begin(), all.end(),
                     [text](const Secret& one) { return text.find(one.reveal()) != text.npos; });
}

constexpr std::string_view kSecret = "s3cr3t/with+odd \"signs\"~";

TEST(Forms, Report72_FindEachWayInWhichAnUpstreamEchoes) {
  // denoland/clawpatrol#313, Infisical/agent-vault#258: an echo of the request's headers brings the secret
  // back.
  auto all = forms(kSecret);
  std::string secret(kSecret);
  EXPECT_TRUE(finds(all, "x " + secret + " y"));
  EXPECT_TRUE(finds(all, "q=" + http::percent_encode(secret)));
  EXPECT_TRUE(finds(all, "q=" + to_lower(http::percent_encode(secret))));
  EXPECT_TRUE(finds(all, json_quote(secret)));
  EXPECT_TRUE(finds(all, R"("s3cr3t\/with+odd \"signs\"~")"));
  EXPECT_TRUE(finds(all, hex_encode(secret)));
  for (std::size_t before = 0; before < 5; ++before) {
    for (std::size_t after = 0; after < 5; ++after) {
      auto text = std::string(before, 'u') + secret + std::string(after, 'v');
      EXPECT_TRUE(finds(all, base64_encode(text))) << before << after;
      EXPECT_TRUE(finds(all, base64url_encode(text))) << before << after;
    }
  }
  EXPECT_FALSE(finds(all, "s3cr3t/with+odd"));
}

TEST(Forms, NoneIsShortOrThereTwice) {
  for (const auto& text : {std::string("abc"), std::string("abcdefgh"), std::string(kSecret)}) {
    auto all = forms(text);
    std::vector<std::string> texts;
    for (const auto& one : all) {
      EXPECT_GE(one.reveal().size(), kShortestForm);
      texts.push_back(one.reveal());
    }
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  }
}

TEST(Forms, OfACredentialAreThoseOfAllItsSecretParts) {
  auto basic = forms(*credential({{"type", "basic"}, {"username", "user"}}, "the-password"));
  EXPECT_TRUE(finds(basic, "Basic " + base64_encode("user:the-password")));
  auto token = Locked::copy_of("minted-access-token");
  auto oauth =
      forms(*credential({{"type", "oauth2"}, {"token_url", "https://a/t"}, {"client_id", "c"}},
                        R"({"client_secret":"the-client-secret","refresh_token":"the-refresh-token"})"),
            &token);
  for (auto text : {"the-client-secret", "the-refresh-token", "minted-access-token"})
    EXPECT_TRUE(finds(oauth, text));
  EXPECT_FALSE(finds(oauth, "client_secret"));
  auto aws =
      forms(*credential({{"type", "aws_sigv4"}, {"access_key_id", "AKIDEXAMPLE"}}, "the-plain-secret-key"));
  EXPECT_TRUE(finds(aws, "the-plain-secret-key"));
  EXPECT_FALSE(finds(aws, "AKIDEXAMPLE"));
}

}  // namespace
}  // namespace atl::gateway::vault
