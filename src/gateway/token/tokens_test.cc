// SPDX-License-Identifier: Apache-2.0
#include "gateway/token/tokens.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "base/random.h"
#include "gateway/vault/sealing.h"
#include "support/run_task.h"

namespace atl::gateway::token {
namespace {

using test_support::run_task;

namespace asio = async::asio;

class TokensTest : public ::testing::Test {
 protected:
  TokensTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-tokens-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
    start();
  }
  ~TokensTest() override {
    tokens_.reset();
    std::filesystem::remove_all(folder_);
  }
  void start() {
    tokens_.reset();
    auto key = vault::Locked::copy_of(std::string(vault::kKeyBytes, 'k'));
    auto opened = Tokens::open((folder_ / "tokens.db").string(), std::move(key), clock_);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    tokens_ = std::move(*opened);
  }
  std::string issue(const Holder& holder) {
    auto issued = run_task(tokens_->issue(holder));
    EXPECT_TRUE(issued.ok()) << issued.error().message();
    return issued->text.reveal();
  }
  // "ok" or the word of the refusal.
  std::string check(std::string_view text, const Holder& presenter) const {
    auto grant = tokens_->check(text, presenter);
    return grant.ok() ? "ok" : std::string(grant.error().word());
  }

  const Holder mine_{"t1", "sbx1", 3, 7};
  ManualClock clock_;
  std::filesystem::path folder_;
  std::unique_ptr<Tokens> tokens_;
};

TEST_F(TokensTest, AreGoodForTheirSandboxAlsoAfterARestart) {
  auto token = issue(mine_);
  EXPECT_TRUE(token.starts_with(kFullPrefix));
  EXPECT_EQ(check(token, mine_), "ok");
  start();
  EXPECT_EQ(check(token, mine_), "ok");
  EXPECT_NE(token, issue(mine_));
}

TEST_F(TokensTest, AStolenOneIsUselessFromAnywhereElse) {
  auto token = issue(mine_);
  for (const auto& thief :
       {Holder{"t1", "sbx1", 3, 8}, Holder{"t1", "sbx2", 3, 7}, Holder{"t2", "sbx1", 3, 7},
        Holder{"t1", "sbx1", 4, 7}, Holder{"t1", "sbx1", 2, 7}, Holder{}}) {
    EXPECT_EQ(check(token, thief), "token_elsewhere");
    EXPECT_EQ(check(narrow(token, "{}")->reveal(), thief), "token_elsewhere");
  }
}

TEST_F(TokensTest, EndAfterAnHourUnlessTheyAreRenewed) {
  auto token = issue(mine_);
  auto other = issue({"t1", "sbx2", 1, 9});
  clock_.advance(std::chrono::minutes(40));
  ASSERT_TRUE(run_task(tokens_->renew([](const Holder& holder) { return holder.sandbox == "sbx1"; })).ok());
  EXPECT_EQ(check(other, {"t1", "sbx2", 1, 9}), "token_unknown");
  start();
  clock_.advance(std::chrono::minutes(59));
  EXPECT_EQ(check(token, mine_), "ok");
  clock_.advance(std::chrono::minutes(1));
  EXPECT_EQ(check(token, mine_), "token_expired");
  ASSERT_TRUE(run_task(tokens_->renew([](const Holder&) { return true; })).ok());  // too late
  EXPECT_EQ(check(token, mine_), "token_unknown");
  EXPECT_EQ(tokens_->size(), 0U);
}

TEST_F(TokensTest, ARevocationCountsAtOnceAndForEver) {
  auto token = issue(mine_);
  ASSERT_TRUE(run_task(tokens_->revoke("sbx1", 2)).ok());  // of before it
  EXPECT_EQ(check(token, mine_), "ok");
  auto revoking = tokens_->revoke("sbx1", 3);
  EXPECT_EQ(check(token, mine_), "token_unknown");  // its task has not run yet
  ASSERT_TRUE(run_task(std::move(revoking)).ok());
  EXPECT_EQ(check(token, mine_), "token_unknown");
  start();
  EXPECT_EQ(check(token, mine_), "token_unknown");
  EXPECT_EQ(check(narrow(token, "{}")->reveal(), mine_), "token_unknown");
}

TEST_F(TokensTest, TheDiskHasNothingThatOpens) {
  auto token = issue(mine_);
  auto parts = read_token(token);
  ASSERT_TRUE(parts.ok());
  tokens_.reset();
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    bytes += text.str();
  }
  ASSERT_NE(bytes.find("sbx1"), bytes.npos);  // what is searched is the right thing
  for (const auto& text : {token, token.substr(kFullPrefix.size()), parts->bits.reveal(),
                           parts->signature.reveal(), hex_encode(parts->bits.reveal())}) {
    EXPECT_EQ(bytes.find(text), bytes.npos);
  }
  start();
}

TEST_F(TokensTest, ForgedAndBrokenOnesAreRefused) {
  auto token = issue(mine_);
  EXPECT_EQ(check(write_full(std::string(32, 'x')).reveal(), mine_), "token_unknown");
  for (const auto& text : {std::string(), std::string("atoll_st_"), token + "A",
                           token.substr(0, token.size() - 1), "Bearer " + token, std::string("atoll_nt_.."),
                           "atoll_nt_" + token.substr(9), "atoll_nt_" + std::string(5000, 'a')}) {
    EXPECT_EQ(check(text, mine_), "token_malformed") << text;
  }
}

TEST_F(TokensTest, ANarrowedOneCanDoLessAndNeverMore) {
  auto token = issue(mine_);
  auto narrow_text =
      narrow(token, R"({"host":"*.example.com","path":"/v1","methods":["GET"],"label":"tests"})");
  ASSERT_TRUE(narrow_text.ok());
  auto again = narrow(narrow_text->reveal(), R"({"path":"/v1/models","until":"2023-11-14T22:14:00Z"})");
  ASSERT_TRUE(again.ok());
  auto allowed = [&](const Secret& text, const std::string& host, const std::string& method,
                     const std::string& path, const std::string& label) {
    auto grant = tokens_->check(text.reveal(), mine_);
    EXPECT_TRUE(grant.ok());
    auto parsed = parse_host(host);
    return grant->allows({*parsed, method, path, label, clock_.now()}).ok();
  };
  EXPECT_TRUE(allowed(*narrow_text, "a.example.com", "GET", "/v1/x", "tests"));
  EXPECT_FALSE(allowed(*narrow_text, "example.com", "GET", "/v1/x", "tests"));
  EXPECT_FALSE(allowed(*narrow_text, "a.example.com", "POST", "/v1/x", "tests"));
  EXPECT_FALSE(allowed(*narrow_text, "a.example.com", "GET", "/v12", "tests"));
  EXPECT_FALSE(allowed(*narrow_text, "a.example.com", "GET", "/v1/../admin", "tests"));
  EXPECT_FALSE(allowed(*narrow_text, "a.example.com", "GET", "/v1/x", "other"));
  EXPECT_TRUE(allowed(*again, "a.example.com", "GET", "/v1/models/y", "tests"));
  EXPECT_FALSE(allowed(*again, "a.example.com", "GET", "/v1/x", "tests"));
  EXPECT_FALSE(allowed(*again, "a.example.com", "POST", "/v1/models", "tests"));
  clock_.advance(std::chrono::minutes(2));  // the clock began at 22:13:20
  EXPECT_FALSE(allowed(*again, "a.example.com", "GET", "/v1/models/y", "tests"));
}

TEST_F(TokensTest, ACaveatCannotBeTakenOffChangedOrReordered) {
  auto token = issue(mine_);
  auto twice = narrow(narrow(token, R"({"path":"/a"})")->reveal(), R"({"methods":["GET"]})")->reveal();
  ASSERT_EQ(check(twice, mine_), "ok");
  auto body = twice.substr(kNarrowPrefix.size());
  std::vector<std::string> parts;
  std::stringstream in(body);
  for (std::string one; std::getline(in, one, '.');) parts.push_back(one);
  ASSERT_EQ(parts.size(), 4U);
  auto join = [](std::initializer_list<std::string> list) {
    std::string out;
    for (const auto& one : list) out += (out.empty() ? "atoll_nt_" : ".") + one;
    return out;
  };
  EXPECT_EQ(check(join({parts[0], parts[1], parts[3]}), mine_), "token_unknown");
  EXPECT_EQ(check(join({parts[0], parts[2], parts[3]}), mine_), "token_unknown");
  EXPECT_EQ(check(join({parts[0], parts[2], parts[1], parts[3]}), mine_), "token_unknown");
  EXPECT_EQ(check(join({parts[0], base64url_encode("{}"), parts[2], parts[3]}), mine_), "token_unknown");
  EXPECT_EQ(check(join({parts[0], parts[3]}), mine_), "token_malformed");
}

TEST_F(TokensTest, ACaveatThatIsNotUnderstoodAllowsNothing) {
  auto token = issue(mine_);
  EXPECT_FALSE(narrow(token, R"({"hots":"a"})").ok());
  EXPECT_FALSE(narrow(token, "no json").ok());
  EXPECT_FALSE(narrow(token, R"({"methods":[]})").ok());
  // Signed by another program.
  auto parts = read_token(token);
  std::string caveat = R"({"newer":"x"})";
  auto text = fmt::format("atoll_nt_{}.{}.{}", base64url_encode(parts->id), base64url_encode(caveat),
                          base64url_encode(sign_caveat(parts->signature.reveal(), caveat)));
  EXPECT_EQ(check(text, mine_), "token_malformed");
}

TEST_F(TokensTest, ANewOneTakesThePlaceOfTheFormer) {
  auto first = issue(mine_);
  auto other = issue({"t1", "sbx2", 1, 8});
  auto second = issue(mine_);
  EXPECT_EQ(check(first, mine_), "token_unknown");
  EXPECT_EQ(check(second, mine_), "ok");
  start();
  EXPECT_EQ(check(first, mine_), "token_unknown");
  EXPECT_EQ(check(second, mine_), "ok");
  EXPECT_EQ(check(other, {"t1", "sbx2", 1, 8}), "ok");
  EXPECT_EQ(tokens_->size(), 2U);
}

TEST_F(TokensTest, CannotBeNarrowedWithoutEnd) {
  std::string text = write_full(std::string(32, 'x')).reveal();
  for (std::size_t i = 0; i < kMaxCaveats; ++i) text = narrow(text, "{}")->reveal();
  EXPECT_FALSE(narrow(text, "{}").ok());
}

TEST(TokenText, IsFoundWhereClientsPutKeys) {
  const auto token = write_full(std::string(32, 'x')).reveal();
  std::vector<http::Header> all{{"authorization", "Bearer " + token},
                                {"authorization", "bearer  " + token},
                                {"authorization", "Basic " + base64_encode("x-access-token:" + token)},
                                {"x-api-key", token},
                                {"proxy-authorization", "Basic " + base64_encode("atoll:" + token)},
                                {"sec-websocket-protocol", "realtime, " + token}};
  for (const auto& header : all) {
    http::Headers headers{{"accept", "*/*"}, header};
    auto found = find_token(headers);
    ASSERT_TRUE(found.has_value()) << header.name << header.value;
    EXPECT_EQ(found->reveal(), token);
    remove_tokens(headers);
    EXPECT_FALSE(find_token(headers).has_value());
    EXPECT_EQ(headers.size(), header.name == "sec-websocket-protocol" ? 2U : 1U);
  }
  for (const auto& header : std::vector<http::Header>{{"authorization", "Bearer sk-x"},
                                                      {"authorization", "Basic !"},
                                                      {"authorization", "Basic "},
                                                      {"authorization", ""},
                                                      {"x-other", token}}) {
    EXPECT_FALSE(find_token({header}).has_value()) << header.value;
  }
}

TEST(TokenText, NeverGoesUpstreamWhereverItStands) {
  const auto token = write_full(std::string(32, 'x')).reveal();
  http::Headers headers{{"cookie", "a=b; key=" + token},
                        {"x-whatever", "x" + token},
                        {"x-basic", "Basic " + base64_encode(token)},
                        {"sec-websocket-protocol", token},
                        {"accept", "*/*"}};
  remove_tokens(headers);
  EXPECT_EQ(headers.size(), 1U);
}

}  // namespace
}  // namespace atl::gateway::token
