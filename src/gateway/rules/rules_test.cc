// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "gateway/rules/network_policy.h"
#include "gateway/rules/rules_api.h"
#include "http/client.h"
#include "net/tcp.h"

namespace atl::gateway {
namespace {

namespace asio = async::asio;
namespace json = boost::json;
using async::Task;
using policy::Source;
using testing::HasSubstr;

constexpr char kId[] = "iaaaaaaaaaaaaaaaaaaaa";
constexpr char kDenyA[] = R"({"version":1,"rules":[{"id":"a","action":"deny","hosts":["a.example"]}]})";
constexpr char kDenyB[] = R"({"version":1,"rules":[{"id":"b","action":"deny","hosts":["b.example"]}]})";
constexpr char kTrial[] = R"({"version":1,"shadow":true,"default":"deny"})";
constexpr char kBroken[] = R"({"version":1,"rules":[{"action":"deny"}]})";

class RulesTest : public ::testing::Test {
 protected:
  RulesTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-rules-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
    open();
  }
  ~RulesTest() override {
    close();
    std::filesystem::remove_all(folder_);
  }
  void open() {
    auto opened = RuleBook::open(path("rules.db"), clock_);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    book_ = std::move(*opened);
    book_->on_change([this](Source author, const std::string& name) {
      changed_.push_back(fmt::format("{} {}", source_name(author), name));
    });
    file_ = std::make_unique<RuleFile>(*book_, path("rules.json"));
    api_ = std::make_unique<RulesApi>(*book_, *file_, registry_, clock_);
  }
  void close() {
    api_.reset();
    file_.reset();
    book_.reset();
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  void write(const std::string& text) { std::ofstream(path("rules.json")) << text; }

  void run(Task<> task) {
    asio::co_spawn(loop_, std::move(task), asio::detached);
    loop_.restart();
    loop_.run();
  }
  static Task<> keep(Task<Result<void>> task, Result<void>& out) { out = co_await std::move(task); }
  Result<void> get(Task<Result<void>> task) {
    Result<void> out = make_error(Code::kInternal, "it has not run");
    run(keep(std::move(task), out));
    return out;
  }
  Result<void> set(Source author, const char* name, const char* text) {
    return get(book_->set(author, name, text));
  }
  void look() { run(file_->look()); }

  // The ids of the rules above a sandbox of tenant t and template base.
  std::string above() const {
    std::string out;
    for (const policy::RuleSet& one : book_->above("t", "base")) {
      out += fmt::format("{}{}:", one.shadow ? "shadow-" : "", source_name(one.source));
      for (const policy::Rule& rule : one.rules) out += rule.id;
      out += " ";
    }
    return out;
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
  Task<> ask(http::RequestHead head, std::string body) {
    auto client = http::make_client([this] { return connect(); });
    auto fetched = co_await http::fetch(client, std::move(head), std::move(body), 1 << 20);
    EXPECT_TRUE(fetched.ok()) << fetched.error().message();
    status_ = fetched.ok() ? fetched->head.status : 0;
    text_ = fetched.ok() ? fetched->body : std::string();
    client->close_idle();
  }
  int call(const char* method, const std::string& target, const std::string& body = "") {
    http::RequestHead head;
    head.method = method;
    head.target = "/v1/rules" + target;
    head.authority = "gateway";
    head.has_body = !body.empty();
    if (head.has_body) head.content_length = body.size();
    EXPECT_TRUE(RulesApi::takes(head));
    run(ask(std::move(head), body));
    return status_;
  }
  // Of the last answer; until the next call of this.
  const json::object& body() {
    body_ = json::parse(text_).as_object();
    return body_;
  }
  void know(const char* network) {
    Sandbox sandbox{kId, "t", "base", 1, 5, model::State::kRunning, {}, nullptr, nullptr};
    sandbox.network = std::make_shared<const json::object>(json::parse(network).as_object());
    sandbox.policy = compile_network(*sandbox.network, book_->above("t", "base")).value();
    registry_.put(std::move(sandbox));
  }

  std::filesystem::path folder_;
  asio::io_context loop_;
  ManualClock clock_;
  Registry registry_;
  std::unique_ptr<RuleBook> book_;
  std::unique_ptr<RuleFile> file_;
  std::unique_ptr<RulesApi> api_;
  std::vector<std::string> changed_;
  int status_ = 0;
  std::string text_;
  json::object body_;
};

TEST_F(RulesTest, EachSandboxHasThoseOfItsTenantAndTemplateAndTheOperators) {
  EXPECT_TRUE(set(Source::kTenant, "t", kDenyA).ok());
  EXPECT_TRUE(set(Source::kTenant, "other", kDenyB).ok());
  EXPECT_TRUE(set(Source::kTemplate, "base", kDenyB).ok());
  EXPECT_TRUE(set(Source::kTemplate, "t", kDenyA).ok());  // a name is not another kind's
  EXPECT_TRUE(set(Source::kOperator, "", kDenyB).ok());
  EXPECT_EQ(above(), "operator:b tenant:a template:b ");
  EXPECT_EQ(changed_.front(), "tenant t");
}

TEST_F(RulesTest, ATrialStandsBesideTheSetInForce) {
  EXPECT_TRUE(set(Source::kTenant, "t", kDenyA).ok());
  EXPECT_TRUE(set(Source::kTenant, "t", kTrial).ok());
  EXPECT_EQ(above(), "tenant:a shadow-tenant: ");
  EXPECT_TRUE(get(book_->remove({Source::kTenant, "t", true})).ok());
  EXPECT_EQ(above(), "tenant:a ");
  EXPECT_EQ(get(book_->remove({Source::kTenant, "t", true})).error().code(), Code::kNotFound);
}

TEST_F(RulesTest, TheyOutliveARestartAndWhatIsNotGoodChangesNothing) {
  EXPECT_TRUE(set(Source::kTenant, "t", kDenyA).ok());
  auto refused = set(Source::kTenant, "t", kBroken);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("rules[0]"));
  close();
  open();
  EXPECT_EQ(above(), "tenant:a ");
  EXPECT_TRUE(get(book_->remove({Source::kTenant, "t", false})).ok());
  close();
  open();
  EXPECT_EQ(above(), "");
}

TEST_F(RulesTest, TheOperatorsFileIsFollowed) {
  write(kDenyA);
  ASSERT_TRUE(file_->begin().ok());
  EXPECT_EQ(above(), "operator:a ");
  changed_.clear();
  look();
  EXPECT_TRUE(changed_.empty());
  write(kDenyB);
  look();
  EXPECT_EQ(above(), "operator:b ");
  EXPECT_EQ(changed_, std::vector<std::string>{"operator "});
  write(kTrial);  // in place of the set in force: it is what the file says
  look();
  EXPECT_EQ(above(), "shadow-operator: ");
}

TEST_F(RulesTest, ABrokenFileLeavesTheLastGoodRulesAndSaysSo) {
  write(kDenyA);
  ASSERT_TRUE(file_->begin().ok());
  write(kBroken);
  look();
  EXPECT_EQ(above(), "operator:a ");
  EXPECT_THAT(file_->problem(), HasSubstr("rules[0]"));
  // Also over a restart, and when it is gone or empty.
  close();
  open();
  ASSERT_TRUE(file_->begin().ok());
  EXPECT_EQ(above(), "operator:a ");
  EXPECT_THAT(file_->problem(), HasSubstr("rules[0]"));
  std::filesystem::remove(path("rules.json"));
  look();
  EXPECT_EQ(above(), "operator:a ");
  EXPECT_THAT(file_->problem(), HasSubstr("rules.json"));
  write("");
  look();
  EXPECT_EQ(above(), "operator:a ");
  EXPECT_FALSE(file_->problem().empty());
  write(kDenyA);  // the same again: there is no problem any more
  look();
  EXPECT_EQ(file_->problem(), "");
}

TEST_F(RulesTest, WithoutAGoodOneThereIsNoStart) {
  EXPECT_FALSE(file_->begin().ok());
  write(kBroken);
  EXPECT_FALSE(file_->begin().ok());
  RuleFile none(*book_, "");
  EXPECT_TRUE(none.begin().ok());
}

TEST_F(RulesTest, WhoTakesTheFileOutOfTheConfigurationTakesItsRulesBack) {
  write(kDenyA);
  ASSERT_TRUE(file_->begin().ok());
  close();
  open();
  RuleFile none(*book_, "");
  ASSERT_TRUE(none.begin().ok());
  EXPECT_EQ(above(), "");
}

TEST_F(RulesTest, CallsOfControl) {
  EXPECT_EQ(call("PUT", "/tenant/t", kDenyA), 200);
  EXPECT_EQ(text_, R"({"notes":[]})");
  EXPECT_EQ(above(), "tenant:a ");
  EXPECT_EQ(call("PUT", "/template/base", kTrial), 200);
  EXPECT_EQ(call("PUT", "/tenant/t", kBroken), 400);
  EXPECT_THAT(text_, HasSubstr("rules[0]"));
  EXPECT_EQ(call("PUT", "/operator/x", kDenyA), 404);
  EXPECT_EQ(call("PUT", "/tenant/", kDenyA), 404);
  EXPECT_EQ(call("GET", "/tenant/t"), 200);
  EXPECT_EQ(text_, kDenyA);
  EXPECT_EQ(call("GET", "/template/base"), 404);
  EXPECT_EQ(call("GET", "/template/base?trial=true"), 200);
  EXPECT_EQ(call("GET", ""), 200);
  ASSERT_EQ(body().at("policies").as_array().size(), 2u);
  const auto& first = body().at("policies").as_array()[0].as_object();
  EXPECT_EQ(first.at("author"), "tenant");
  EXPECT_EQ(first.at("name"), "t");
  EXPECT_EQ(first.at("rules"), 1);
  EXPECT_EQ(call("DELETE", "/tenant/t"), 204);
  EXPECT_EQ(call("DELETE", "/tenant/t"), 404);
}

TEST_F(RulesTest, AMistakeInTheFileIsShownWithWhatIsInForce) {
  write(kDenyA);
  ASSERT_TRUE(file_->begin().ok());
  write(kBroken);
  look();
  EXPECT_EQ(call("GET", ""), 200);
  const auto& only = body().at("policies").as_array().at(0).as_object();
  EXPECT_EQ(only.at("author"), "operator");
  EXPECT_EQ(std::string(only.at("file").as_string()), path("rules.json"));
  EXPECT_THAT(std::string(only.at("problem").as_string()), HasSubstr("rules[0]"));
}

TEST_F(RulesTest, ASandboxTellsWhatIsInForceAndWhatWouldHappen) {
  EXPECT_EQ(call("GET", fmt::format("/sandbox/{}", kId)), 404);
  EXPECT_TRUE(set(Source::kTenant, "t", kDenyA).ok());
  know(R"({"internet":false,"allow":["a.example","b.example"],"deny":[]})");
  EXPECT_EQ(call("GET", fmt::format("/sandbox/{}", kId)), 200);
  const auto& sets = body().at("sets").as_array();
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].at("rules").at(0).at("rule"), "tenant/a");
  EXPECT_EQ(sets[1].at("author"), "sandbox");
  EXPECT_EQ(sets[1].at("default"), "deny");
  auto verdict = [&](const char* url) {
    EXPECT_EQ(call("POST", fmt::format("/sandbox/{}", kId), fmt::format(R"({{"url":"{}"}})", url)), 200);
    auto told = body();
    return fmt::format("{} {}", told.at("verdict").as_string().c_str(), told.at("rule").as_string().c_str());
  };
  EXPECT_EQ(verdict("https://a.example/"), "deny tenant/a");
  EXPECT_EQ(verdict("https://b.example/"), "allow sandbox/allowOut-names");
  EXPECT_EQ(verdict("https://c.example/"), "deny default");
  EXPECT_EQ(call("POST", fmt::format("/sandbox/{}", kId), R"({"method":"GET"})"), 400);
  EXPECT_EQ(call("POST", fmt::format("/sandbox/{}", kId), R"({"url":"ftp://a"})"), 400);
}

}  // namespace
}  // namespace atl::gateway
