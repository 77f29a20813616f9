// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/minter.h"

#include <gtest/gtest.h>

#include <deque>
#include <filesystem>

#include "base/bytes.h"
#include "base/random.h"
#include "base/text.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::vault {
namespace {

namespace asio = async::asio;
namespace json = boost::json;

// A token endpoint that answers when the test lets it. It rotates refresh tokens, and one that is used a
// second time ends everything, as real ones do.
class Endpoint {
 public:
  explicit Endpoint(async::Executor executor) : changed_(std::move(executor)) {}

  Task<Result<TokenAnswer>> answer(TokenRequest request) {
    requests.push_back(request.body.reveal());
    urls.push_back(request.url);
    while (held) co_await changed_.wait();
    if (!scripted.empty()) {
      auto next = std::move(scripted.front());
      scripted.pop_front();
      co_return next;
    }
    co_return by_rules(request.body.reveal());
  }
  void release() {
    held = false;
    changed_.notify_all();
  }
  static TokenAnswer json(int status, json::object body) { return {status, Secret(json::serialize(body))}; }

  bool held = false;
  std::vector<std::string> requests;
  std::vector<std::string> urls;
  std::deque<Result<TokenAnswer>> scripted;
  std::string refresh = "refresh-0";
  int issued = 0;
  int life_s = 3600;

 private:
  TokenAnswer by_rules(const std::string& body) {
    if (body.find("grant_type=refresh_token") != body.npos) {
      if (body.find("refresh_token=" + refresh + "&") == body.npos &&
          !body.ends_with("refresh_token=" + refresh)) {
        refresh = "nobody has this one";
        return json(400, {{"error", "invalid_grant"}, {"error_description", body}});
      }
      refresh = fmt::format("refresh-{}", issued + 1);
    }
    ++issued;
    json::object out{
        {"access_token", fmt::format("access-{}", issued)}, {"token_type", "Bearer"}, {"expires_in", life_s}};
    if (body.find("client_credentials") == body.npos) out["refresh_token"] = refresh;
    return json(200, out);
  }
  async::Event changed_;
};

class MinterTest : public ::testing::Test {
 protected:
  MinterTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-minter-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
    start();
  }
  ~MinterTest() override {
    stop();
    std::filesystem::remove_all(folder_);
  }
  // A new process on the same file.
  void start() {
    auto opened =
        Vault::open((folder_ / "vault.db").string(), Locked::copy_of(std::string(kKeyBytes, 'k')), clock_);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    vault_ = std::move(*opened);
    auto fetch = [this](TokenRequest request) { return endpoint_.answer(std::move(request)); };
    minter_ = std::make_unique<Minter>(loop_.get_executor(), *vault_, fetch, clock_);
  }
  void stop() {
    run(minter_->stop());
    minter_.reset();
    vault_.reset();
  }
  void restart() {
    stop();
    start();
  }

  void run(Task<> task) {
    asio::co_spawn(loop_, std::move(task), asio::detached);
    spin();
  }
  void spin() {
    loop_.restart();
    loop_.run();
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> out;
    run(fill(std::move(task), out));
    return std::move(*out);
  }
  template <class T>
  static Task<> fill(Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }

  CredentialPtr credential(json::object more = {},
                           std::string value = R"({"client_secret":"shh","refresh_token":"refresh-0"})",
                           const std::string& name = "a") {
    json::object config{{"type", "oauth2"},
                        {"grant", "authorization_code"},
                        {"token_url", "https://auth.example/token"},
                        {"authorize_url", "https://auth.example/authorize"},
                        {"redirect_uri", "https://atoll.example/callback"},
                        {"client_id", "client"},
                        {"client_auth", "body"}};
    if (more.contains("grant")) {
      config.erase("authorize_url");
      config.erase("redirect_uri");
    }
    for (const auto& [key, one] : more) config[key] = one;
    auto made = run(vault_->create("t1", NewSecret{name, Locked::copy_of(value), config, {}}));
    EXPECT_TRUE(made.ok()) << made.error().message();
    return used(name);
  }
  CredentialPtr used(const std::string& name = "a") { return *vault_->use("t1", name); }
  // The token, or the word of the error.
  std::string mint(const CredentialPtr& credential) { return text(run(minter_->token(credential))); }
  static std::string text(const Result<TokenPtr>& token) {
    return token.ok() ? std::string((*token)->reveal()) : std::string(token.error().word());
  }

  ManualClock clock_;
  std::filesystem::path folder_;
  asio::io_context loop_;
  Endpoint endpoint_{loop_.get_executor()};
  std::unique_ptr<Vault> vault_;
  std::unique_ptr<Minter> minter_;
};

TEST_F(MinterTest, AJwtIsUsedForHalfItsLife) {
  json::object config{{"type", "jwt"}, {"algorithm", "HS256"}, {"lifetime_s", 100}};
  NewSecret secret{"jwt", Locked::copy_of(std::string(32, 'k')), config, {}};
  ASSERT_TRUE(run(vault_->create("t1", std::move(secret))).ok());
  auto first = mint(used("jwt"));
  EXPECT_TRUE(first.starts_with("ey")) << first;
  clock_.advance(std::chrono::seconds(49));
  EXPECT_EQ(mint(used("jwt")), first);
  clock_.advance(std::chrono::seconds(2));
  EXPECT_NE(mint(used("jwt")), first);
  EXPECT_TRUE(endpoint_.requests.empty());
}

TEST_F(MinterTest, AnOldVersionDoesNotTouchTheTokensOfTheNewOne) {
  auto old = credential({{"grant", "client_credentials"}}, R"({"client_secret":"old"})");
  ASSERT_TRUE(
      run(vault_->rotate("t1", "a", Locked::copy_of(R"({"client_secret":"new"})"), std::nullopt)).ok());
  EXPECT_EQ(mint(used()), "access-1");
  clock_.advance(std::chrono::hours(2));
  endpoint_.scripted.push_back(Endpoint::json(400, {{"error", "invalid_client"}}));
  EXPECT_EQ(mint(old), "credential_changed");
  endpoint_.scripted.clear();
  EXPECT_EQ(mint(used()), "access-2");
  ASSERT_TRUE(run(vault_->remove("t1", "a")).ok());
  EXPECT_EQ(mint(old), "credential_changed");
}

TEST_F(MinterTest, Report76_ManyRequestsRefreshOnce) {
  // PrefectHQ/fastmcp#4901: a rotating refresh token used twice in parallel ended the account's access.
  auto credential = this->credential();
  endpoint_.held = true;
  std::vector<std::optional<Result<TokenPtr>>> answers(20);
  for (auto& answer : answers)
    asio::co_spawn(loop_, fill(minter_->token(credential), answer), asio::detached);
  loop_.restart();
  while (endpoint_.requests.empty()) loop_.run_one();
  loop_.poll();
  EXPECT_EQ(endpoint_.requests.size(), 1U);
  endpoint_.release();
  spin();
  for (const auto& answer : answers) EXPECT_EQ(text(*answer), "access-1");
  EXPECT_EQ(endpoint_.requests.size(), 1U);
}

TEST_F(MinterTest, Report76_ARotatedTokenIsOnDiskBeforeAnybodyHasTheAccessToken) {
  auto credential = this->credential();
  EXPECT_EQ(mint(credential), "access-1");
  // The process ends right after the first use. Were refresh-1 not on disk, refresh-0 would be used a second
  // time.
  restart();
  clock_.advance(std::chrono::hours(2));
  EXPECT_EQ(mint(used()), "access-2");
  restart();
  EXPECT_EQ(mint(used()), "access-2");  // still good: nothing is asked for
  EXPECT_EQ(endpoint_.requests.size(), 2U);
}

TEST_F(MinterTest, Report76_ACallerThatGoesAwayDoesNotLoseTheRotation) {
  // mnfst/llm-gateway#2113: rotated, then lost before it was kept.
  auto credential = this->credential();
  endpoint_.held = true;
  asio::cancellation_signal gone;
  std::optional<Result<TokenPtr>> answer;
  asio::co_spawn(loop_, fill(minter_->token(credential), answer),
                 asio::bind_cancellation_slot(gone.slot(), asio::detached));
  loop_.restart();
  while (endpoint_.requests.empty()) loop_.run_one();
  gone.emit(asio::cancellation_type::terminal);
  loop_.poll();
  endpoint_.release();
  spin();
  restart();
  EXPECT_EQ(mint(used()), "access-1");
  EXPECT_EQ(endpoint_.requests.size(), 1U);
}

TEST_F(MinterTest, Report76_WhatTheDiskDidNotTakeIsKeptAndNotUsed) {
  auto credential = this->credential();
  // A file that can be read and not written: what a full disk looks like from here.
  stop();
  {
    auto raw = store::Connection::open((folder_ / "vault.db").string());
    ASSERT_TRUE(raw.ok());
    ASSERT_TRUE(
        (*raw)
            ->exec("CREATE TRIGGER full BEFORE INSERT ON tokens BEGIN SELECT RAISE(FAIL, 'full'); END")
            .ok());
  }
  start();
  EXPECT_EQ(mint(used()), "internal");
  EXPECT_EQ(mint(used()), "internal");  // at once: no second exchange within the pause
  EXPECT_EQ(endpoint_.requests.size(), 1U);
  clock_.advance(std::chrono::seconds(5));
  EXPECT_EQ(mint(used()), "internal");
  EXPECT_EQ(endpoint_.requests.size(), 1U);  // it only tried to save again
}

TEST_F(MinterTest, ATokenIsRenewedBeforeItsEndAndUsedToItWhenThatFails) {
  auto credential = this->credential();
  EXPECT_EQ(mint(credential), "access-1");
  clock_.advance(std::chrono::seconds(3600 - 61));
  EXPECT_EQ(mint(credential), "access-1");
  clock_.advance(std::chrono::seconds(2));
  endpoint_.scripted.emplace_back(make_error(Code::kUnavailable, "no route"));
  EXPECT_EQ(mint(credential), "access-1");
  EXPECT_EQ(mint(credential), "access-1");
  EXPECT_EQ(endpoint_.requests.size(), 2U);
  clock_.advance(std::chrono::seconds(3));
  EXPECT_EQ(mint(credential), "access-2");
}

TEST_F(MinterTest, ATokenOfAShortLifeIsUsedForMostOfIt) {
  endpoint_.life_s = 40;
  auto credential = this->credential();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(mint(credential), "access-1");
  clock_.advance(std::chrono::seconds(29));
  EXPECT_EQ(mint(credential), "access-1");
  EXPECT_EQ(endpoint_.requests.size(), 1U);
  clock_.advance(std::chrono::seconds(2));
  EXPECT_EQ(mint(credential), "access-2");
}

TEST_F(MinterTest, ARefusalForGoodIsNotRepeatedAndShowsNothing) {
  auto credential = this->credential({}, R"({"client_secret":"shh","refresh_token":"used-already"})");
  auto first = run(minter_->token(credential));
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().word(), "oauth_invalid_grant");
  auto shown = first.error().message() + first.error().hint();
  EXPECT_EQ(shown.find("used-already"), shown.npos);
  EXPECT_EQ(shown.find("shh"), shown.npos);
  clock_.advance(std::chrono::hours(100));
  EXPECT_EQ(mint(credential), "oauth_invalid_grant");
  EXPECT_EQ(endpoint_.requests.size(), 1U);
  // A new value is a new beginning.
  endpoint_.refresh = "fresh";
  auto value = Locked::copy_of(R"({"client_secret":"shh","refresh_token":"fresh"})");
  ASSERT_TRUE(run(vault_->rotate("t1", "a", std::move(value), std::nullopt)).ok());
  EXPECT_EQ(mint(used()), "access-1");
}

TEST_F(MinterTest, AnEndpointThatIsDownIsAskedAgainAfterAPause) {
  auto credential = this->credential();
  endpoint_.scripted.emplace_back(Endpoint::json(503, {}));
  endpoint_.scripted.emplace_back(TokenAnswer{200, Secret("<html>")});
  EXPECT_EQ(mint(credential), "token_endpoint_failed");
  clock_.advance(std::chrono::seconds(3));
  EXPECT_EQ(mint(credential), "token_endpoint_failed");
  clock_.advance(std::chrono::seconds(3));
  EXPECT_EQ(mint(credential), "access-1");
}

TEST_F(MinterTest, ARejectedTokenIsReplacedOnce) {
  auto credential = this->credential();
  auto first = run(minter_->token(credential));
  clock_.advance(Minter::kTrusted);
  minter_->reject(*credential, *first);
  EXPECT_EQ(mint(credential), "access-2");
  clock_.advance(Minter::kTrusted);
  minter_->reject(*credential, *first);  // a very slow second request with the old one
  EXPECT_EQ(mint(credential), "access-2");
}

TEST_F(MinterTest, AProgramThatHasEveryRequestRefusedCostsOneExchangeInAWhile) {
  auto credential = this->credential();
  auto refused = [&] {
    auto token = run(minter_->token(credential));
    minter_->reject(*credential, *token);
    return text(token);
  };
  for (int i = 0; i < 10; ++i) EXPECT_EQ(refused(), "access-1");
  clock_.advance(Minter::kTrusted - Millis(1));
  clock_.step_wall(std::chrono::minutes(5));  // a clock that is set makes no token older
  EXPECT_EQ(refused(), "access-1");
  EXPECT_EQ(mint(credential), "access-1");
  clock_.advance(Millis(1));
  EXPECT_EQ(refused(), "access-1");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(refused(), "access-2");
  EXPECT_EQ(endpoint_.requests.size(), 2U);
}

TEST_F(MinterTest, ATokenFromTheDiskIsReplacedAtItsFirstRefusal) {
  auto credential = this->credential();
  EXPECT_EQ(mint(credential), "access-1");
  restart();
  auto kept = run(minter_->token(used()));
  EXPECT_EQ(text(kept), "access-1");
  minter_->reject(*credential, *kept);
  EXPECT_EQ(mint(used()), "access-2");
}

TEST_F(MinterTest, ClientCredentialsNeedNoDisk) {
  auto credential =
      this->credential({{"grant", "client_credentials"}, {"scope", "a b"}, {"client_auth", "basic"}},
                       R"({"client_secret":"s:h"})");
  EXPECT_EQ(mint(credential), "access-1");
  EXPECT_EQ(endpoint_.requests[0], "grant_type=client_credentials&scope=a%20b");
  restart();
  EXPECT_EQ(mint(used()), "access-2");
}

TEST_F(MinterTest, AnAuthorizationGoesThroughTheBrowserOnce) {
  auto credential = this->credential({{"resource", "https://mcp.example/"}}, R"({"client_secret":"shh"})");
  EXPECT_EQ(mint(credential), "authorization_needed");
  auto begun = minter_->begin_authorization(credential);
  ASSERT_TRUE(begun.ok());
  ASSERT_TRUE(begun->url.starts_with("https://auth.example/authorize?response_type=code&client_id=client&"));
  EXPECT_NE(begun->url.find("code_challenge_method=S256"), begun->url.npos);
  EXPECT_NE(begun->url.find("resource=https%3A%2F%2Fmcp.example%2F"), begun->url.npos);
  EXPECT_NE(begun->url.find("state=" + begun->state), begun->url.npos);

  EXPECT_FALSE(run(minter_->finish_authorization(credential, "another state", "code")).ok());
  ASSERT_TRUE(run(minter_->finish_authorization(credential, begun->state, "the-code")).ok());
  const auto& body = endpoint_.requests.back();
  EXPECT_NE(body.find("code=the-code"), body.npos);
  EXPECT_NE(body.find("resource=https%3A%2F%2Fmcp.example%2F"), body.npos);
  // The verifier is the one whose hash went through the browser (RFC 7636).
  auto at = body.find("code_verifier=") + 14;
  auto verifier = body.substr(at, body.find('&', at) - at);
  EXPECT_NE(begun->url.find("code_challenge=" + base64url_encode(sha256(verifier))), begun->url.npos);
  EXPECT_EQ(run(minter_->finish_authorization(credential, begun->state, "the-code")).error().word(),
            "authorization_unknown");
  EXPECT_EQ(mint(credential), "access-1");
  restart();
  EXPECT_EQ(mint(used()), "access-1");
}

TEST_F(MinterTest, AnAuthorizationThatComesLateIsRefused) {
  auto credential = this->credential();
  auto begun = minter_->begin_authorization(credential);
  ASSERT_TRUE(begun.ok());
  clock_.advance(Minter::kAuthorizeWithin + std::chrono::seconds(1));
  EXPECT_EQ(run(minter_->finish_authorization(credential, begun->state, "c")).error().word(),
            "authorization_unknown");
  EXPECT_TRUE(endpoint_.requests.empty());
}

TEST_F(MinterTest, AnAuthorizationIsFinishedForItsCredentialOnly) {
  auto mine = credential({}, R"({"client_secret":"shh"})", "mine");
  auto other = credential({}, R"({"client_secret":"shh"})", "other");
  auto begun = minter_->begin_authorization(mine);
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(run(minter_->finish_authorization(other, begun->state, "the-code")).error().word(),
            "authorization_unknown");
  EXPECT_TRUE(endpoint_.requests.empty());
  EXPECT_EQ(mint(mine), "authorization_needed");
  EXPECT_TRUE(run(minter_->finish_authorization(mine, begun->state, "the-code")).ok());
}

TEST_F(MinterTest, ADeviceIsAuthorizedByAPerson) {
  auto credential =
      this->credential({{"grant", "device_code"}, {"device_url", "https://auth.example/device"}},
                       R"({"client_secret":"shh"})", "dev");
  EXPECT_EQ(run(minter_->poll_device(credential)).error().word(), "authorization_unknown");
  endpoint_.scripted.emplace_back(Endpoint::json(200, {{"device_code", "dc"},
                                                       {"user_code", "ABCD-EFGH"},
                                                       {"verification_uri", "https://auth.example/activate"},
                                                       {"expires_in", 900},
                                                       {"interval", 7}}));
  auto code = run(minter_->begin_device(credential));
  ASSERT_TRUE(code.ok()) << code.error().message();
  EXPECT_EQ(code->user_code, "ABCD-EFGH");
  EXPECT_EQ(code->interval_s, 7);
  endpoint_.scripted.emplace_back(Endpoint::json(400, {{"error", "authorization_pending"}}));
  EXPECT_EQ(*run(minter_->poll_device(credential)), Minter::DeviceState::kWaiting);
  EXPECT_EQ(*run(minter_->poll_device(credential)), Minter::DeviceState::kDone);
  EXPECT_EQ(endpoint_.urls.back(), "https://auth.example/token");
  EXPECT_EQ(mint(credential), "access-1");
}

TEST_F(MinterTest, AuthorizationsAreBoundedByTenant) {
  auto mine = credential({}, R"({"client_secret":"shh"})", "mine");
  for (std::size_t i = 0; i < Minter::kMaxAuthorizations; ++i)
    ASSERT_TRUE(minter_->begin_authorization(mine).ok());
  EXPECT_EQ(minter_->begin_authorization(mine).error().code(), Code::kExhausted);
  Credential theirs{mine->row, mine->config, Locked::copy_of(mine->secret.reveal())};
  theirs.row.id = "sec_theirs";
  theirs.row.tenant = "t2";
  EXPECT_TRUE(minter_->begin_authorization(std::make_shared<const Credential>(std::move(theirs))).ok());
}

TEST_F(MinterTest, StoppingWaitsForAnExchange) {
  auto credential = this->credential();
  endpoint_.held = true;
  std::optional<Result<TokenPtr>> answer;
  asio::co_spawn(loop_, fill(minter_->token(credential), answer), asio::detached);
  loop_.restart();
  while (endpoint_.requests.empty()) loop_.run_one();
  bool stopped = false;
  asio::co_spawn(loop_, minter_->stop(), [&stopped](std::exception_ptr) { stopped = true; });
  loop_.poll();
  EXPECT_FALSE(stopped);
  endpoint_.release();
  spin();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(text(*answer), "access-1");
}

}  // namespace
}  // namespace atl::gateway::vault
