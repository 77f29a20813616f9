// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/http_api.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "gateway/vault/sealing.h"
#include "http/client.h"
#include "http/server.h"
#include "net/tcp.h"

namespace atl::gateway::vault {
namespace {

namespace asio = async::asio;
namespace json = boost::json;

constexpr const char* kValue = "sk-live-4242424242424242";

class HttpApiTest : public ::testing::Test {
 protected:
  HttpApiTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-vault-api-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
    auto opened =
        Vault::open((folder_ / "vault.db").string(), Locked::copy_of(std::string(kKeyBytes, 'k')), clock_);
    EXPECT_TRUE(opened.ok());
    vault_ = std::move(*opened);
    auto fetch = [this](TokenRequest request) { return endpoint(std::move(request)); };
    minter_ = std::make_unique<Minter>(loop_.get_executor(), *vault_, fetch, clock_);
    api_ = std::make_unique<HttpApi>(*vault_, *minter_, [this] { return change_key(); });
  }
  ~HttpApiTest() override {
    run(minter_->stop());
    minter_.reset();
    vault_.reset();
    std::filesystem::remove_all(folder_);
  }
  Task<Result<void>> change_key() {
    co_return co_await vault_->change_key(Locked::copy_of(std::string(kKeyBytes, 'n')));
  }
  Task<Result<TokenAnswer>> endpoint(TokenRequest) { co_return answer_; }

  void run(Task<> task) {
    asio::co_spawn(loop_, std::move(task), asio::detached);
    loop_.restart();
    loop_.run();
  }
  Task<> serve(net::StreamPtr stream) {
    http::Handler handler = [this](http::Exchange& exchange) { return api_->handle(exchange); };
    http::ServerLimits limits;
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
  }
  Task<Result<net::StreamPtr>> connect() {
    auto [mine, theirs] = net::stream_pair(loop_.get_executor());
    asio::co_spawn(loop_, serve(std::move(mine)), asio::detached);
    co_return std::move(theirs);
  }
  Task<> ask(http::RequestHead head, std::string body, std::optional<http::Answer>& out) {
    auto client = http::make_client([this] { return connect(); });
    auto fetched = co_await http::fetch(client, std::move(head), std::move(body), 1 << 20);
    EXPECT_TRUE(fetched.ok()) << fetched.error().message();
    if (fetched.ok()) out = std::move(*fetched);
    client->close_idle();
  }
  struct Seen {
    int status = 0;
    std::string text;
    json::object body;
  };
  Seen call(const std::string& method, const std::string& path, const std::string& body = "") {
    http::RequestHead head;
    head.method = method;
    head.target = "/v1/vault/" + path;
    head.authority = "gateway";
    head.has_body = !body.empty();
    head.content_length = body.size();
    EXPECT_TRUE(HttpApi::takes(head));
    std::optional<http::Answer> answer;
    run(ask(std::move(head), body, answer));
    Seen out{answer->head.status, answer->body, {}};
    if (!out.text.empty()) out.body = json::parse(out.text).as_object();
    everything_ += out.text;
    return out;
  }

  ManualClock clock_;
  std::filesystem::path folder_;
  asio::io_context loop_;
  TokenAnswer answer_{500, Secret()};
  std::unique_ptr<Vault> vault_;
  std::unique_ptr<Minter> minter_;
  std::unique_ptr<HttpApi> api_;
  std::string everything_;  // all that was ever answered
};

TEST_F(HttpApiTest, SetsListsRotatesAndRemoves) {
  auto made = call("POST", "t1/secrets",
                   R"({"name":"OpenAI","value":"sk-live-4242424242424242","metadata":{"a":"b"}})");
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.body.at("name").as_string(), "openai");
  EXPECT_EQ(made.body.at("currentVersion").as_int64(), 1);
  EXPECT_EQ(made.body.at("metadata").as_object().at("a").as_string(), "b");
  EXPECT_EQ(made.body.at("createdAt").as_string(), "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(made.body.at("credential").as_object().at("type").as_string(), "plain");
  auto id = std::string(made.body.at("secretID").as_string());
  auto rotated = call("POST", "t1/secrets/openai", R"({"value":"the-second-value","metadata":{}})");
  EXPECT_EQ(rotated.status, 200);
  EXPECT_EQ(rotated.body.at("currentVersion").as_int64(), 2);
  EXPECT_TRUE(rotated.body.at("metadata").as_object().empty());
  EXPECT_EQ(call("GET", "t1/secrets/" + id).body.at("currentVersion").as_int64(), 2);
  EXPECT_EQ(call("GET", "t1/secrets").body.at("secrets").as_array().size(), 1U);
  EXPECT_EQ(call("GET", "t2/secrets").body.at("secrets").as_array().size(), 0U);
  EXPECT_EQ((*vault_->use("t1", id))->secret.reveal(), "the-second-value");
  EXPECT_EQ(call("DELETE", "t2/secrets/" + id).status, 404);
  EXPECT_EQ(call("DELETE", "t1/secrets/openai").status, 204);
  EXPECT_EQ(call("GET", "t1/secrets/" + id).status, 404);
  for (auto text : {kValue, "the-second-value"}) EXPECT_EQ(everything_.find(text), std::string::npos);
}

TEST_F(HttpApiTest, WhatIsWrongIsRefusedWithoutTheValue) {
  ASSERT_EQ(call("POST", "t1/secrets", R"({"name":"taken","value":"sk-live-4242424242424242"})").status, 201);
  std::vector<std::pair<std::string, int>> all{
      {R"({"name":"taken","value":"sk-live-4242424242424242"})", 409},
      {R"({"name":"sec_x","value":"sk-live-4242424242424242"})", 400},
      {R"({"value":"sk-live-4242424242424242"})", 400},
      {R"({"name":"a"})", 400},
      {R"({"name":"a","value":5})", 400},
      {R"({"name":"a","value":"sk-live-4242424242424242","credential":{"type":"x"}})", 400},
      {R"({"name":"a","value":"sk-live-4242424242424242\n","credential":{"type":"bearer"}})", 400},
      {R"({"name":"a","value":"sk-live-4242424242424242","metadata":{"k":1}})", 400},
      {R"({"name":"a","value":"sk-live-4242424242424242")", 400},
      {R"(["sk-live-4242424242424242"])", 400}};
  for (const auto& [body, status] : all) EXPECT_EQ(call("POST", "t1/secrets", body).status, status) << body;
  EXPECT_EQ(everything_.find(kValue), std::string::npos);
  for (auto path :
       {"t1", "t1/other", "t1/secrets/a/b", "t1/secrets/taken/authorization/x", "t1/bindings/a/b"}) {
    EXPECT_EQ(call("GET", path).status, 404) << path;
  }
}

TEST_F(HttpApiTest, NamesServices) {
  EXPECT_EQ(call("POST", "t1/services", R"({"name":"b","url":"https://b.example"})").status, 201);
  auto made = call("POST", "t1/services", R"({"name":"A","url":"https://a.example/v1/"})");
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.text, R"({"name":"a","url":"https://a.example/v1"})");
  EXPECT_EQ(call("POST", "t1/services", R"({"name":"b","url":"https://c.example"})").status, 201);
  EXPECT_EQ(call("POST", "t1/services", R"({"name":"c","url":"c.example"})").status, 400);
  EXPECT_EQ(
      call("GET", "t1/services").text,
      R"({"services":[{"name":"a","url":"https://a.example/v1"},{"name":"b","url":"https://c.example"}]})");
  EXPECT_EQ(call("GET", "t2/services").text, R"({"services":[]})");
  EXPECT_EQ(vault_->service("t2", "a"), nullptr);
  ASSERT_NE(vault_->service("t1", "b"), nullptr);
  EXPECT_EQ(vault_->service("t1", "b")->authority.text(), "c.example:443");
  EXPECT_EQ(call("DELETE", "t2/services/a").status, 404);
  EXPECT_EQ(call("DELETE", "t1/services/a").status, 204);
  EXPECT_EQ(vault_->service("t1", "a"), nullptr);
}

TEST_F(HttpApiTest, ChangesTheMasterKeyAndTellsItsFingerprint) {
  std::string before = vault_->key_fingerprint();
  auto changed = call("POST", "t1/key");
  EXPECT_EQ(changed.status, 200) << changed.text;
  EXPECT_NE(vault_->key_fingerprint(), before);
  EXPECT_EQ(changed.body.at("fingerprint").as_string(), vault_->key_fingerprint());
  EXPECT_EQ(call("GET", "t1/key").status, 404);
}

TEST_F(HttpApiTest, BindsAndUnbinds) {
  ASSERT_EQ(call("POST", "t1/secrets", R"({"name":"a","value":"v","credential":{"type":"bearer"}})").status,
            201);
  auto bound = call("POST", "t1/bindings", R"({"secret":"a","host":"api.example.com","path":"/v1"})");
  ASSERT_EQ(bound.status, 201) << bound.text;
  EXPECT_EQ(bound.body.at("path").as_string(), "/v1");
  EXPECT_EQ(call("GET", "t1/bindings").body.at("bindings").as_array().size(), 1U);
  EXPECT_EQ(call("GET", "t2/bindings").body.at("bindings").as_array().size(), 0U);
  EXPECT_EQ(call("POST", "t2/bindings", R"({"secret":"a","host":"api.example.com"})").status, 404);
  EXPECT_EQ(call("POST", "t1/bindings", R"({"secret":"a","host":"*"})").status, 400);
  EXPECT_EQ(call("POST", "t1/bindings", R"({"host":"a.example"})").status, 400);
  auto id = std::string(bound.body.at("bindingID").as_string());
  EXPECT_EQ(call("DELETE", "t2/bindings/" + id).status, 404);
  EXPECT_EQ(call("DELETE", "t1/bindings/" + id).status, 204);
  EXPECT_EQ(call("DELETE", "t1/bindings/" + id).status, 404);
}

TEST_F(HttpApiTest, ABindingThatWouldLeaveItToChanceIsRefused) {
  auto secret = [&](const char* name, const char* credential) {
    auto body = fmt::format(R"({{"name":"{}","value":"v","credential":{}}})", name, credential);
    ASSERT_EQ(call("POST", "t1/secrets", body).status, 201);
  };
  secret("a", R"({"type":"bearer"})");
  secret("b", R"({"type":"header","name":"authorization"})");
  secret("c", R"({"type":"header","name":"x-api-key"})");
  secret("d", R"({"type":"query","key":"k"})");
  secret("e", R"({"type":"aws_sigv4","access_key_id":"AKIA"})");
  auto bind = [&](const char* name, std::string more = "") {
    return call("POST", "t1/bindings",
                fmt::format(R"({{"secret":"{}","host":"api.example.com"{}}})", name, more));
  };
  EXPECT_EQ(bind("a").status, 201);
  auto refused = bind("b");
  EXPECT_EQ(refused.status, 409) << refused.text;
  EXPECT_NE(refused.text.find("more specific"), std::string::npos) << refused.text;
  EXPECT_EQ(bind("a").status, 201) << "the same again leaves nothing to chance";
  EXPECT_EQ(bind("b", R"(,"path":"/v2")").status, 201);
  EXPECT_EQ(bind("b", R"(,"port":8443)").status, 201);
  EXPECT_EQ(bind("b", R"(,"methods":["GET"])").status, 201);
  EXPECT_EQ(bind("b", R"(,"sandboxes":["s1"])").status, 201);
  EXPECT_EQ(bind("c").status, 201) << "another header";
  EXPECT_EQ(bind("d", R"(,"path":"/aws")").status, 201);
  EXPECT_EQ(bind("e", R"(,"path":"/aws")").status, 409) << "a signature is over the query, too";
}

TEST_F(HttpApiTest, AuthorizesThroughTheBrowser) {
  ASSERT_EQ(
      call("POST", "t1/secrets",
           R"({"name":"a","value":"{\"client_secret\":\"the-client-secret\"}","credential":{"type":"oauth2",)"
           R"("grant":"authorization_code","token_url":"https://a/t","authorize_url":"https://a/a",)"
           R"("redirect_uri":"http://localhost/cb","client_id":"c"}})")
          .status,
      201);
  auto begun = call("POST", "t1/secrets/a/authorization");
  ASSERT_EQ(begun.status, 200) << begun.text;
  EXPECT_TRUE(begun.body.at("url").as_string().starts_with("https://a/a?"));
  auto state = std::string(begun.body.at("state").as_string());
  answer_ = {
      200,
      Secret(R"({"access_token":"the-access-token","refresh_token":"the-refresh-token","expires_in":60})")};
  auto path = "t1/secrets/a/authorization/finish";
  EXPECT_EQ(call("POST", path, R"({"state":"x","code":"c"})").status, 404);
  auto done = call("POST", path, fmt::format(R"({{"state":"{}","code":"c"}})", state));
  EXPECT_EQ(done.status, 200) << done.text;
  EXPECT_TRUE(done.body.at("done").as_bool());
  for (auto text : {"the-client-secret", "the-access-token", "the-refresh-token"}) {
    EXPECT_EQ(everything_.find(text), std::string::npos);
  }
}

}  // namespace
}  // namespace atl::gateway::vault
