// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/vault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "base/random.h"
#include "gateway/vault/master_key.h"
#include "gateway/vault/sealing.h"
#include "support/run_task.h"

namespace atl::gateway::vault {
namespace {

using test_support::run_task;

namespace asio = async::asio;

// A secret must not be printable by accident.
template <class T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };
static_assert(!Printable<Locked> && !Printable<Credential> && !Printable<Secret>);
static_assert(!std::is_copy_constructible_v<Locked> && !std::is_convertible_v<Locked, std::string_view>);

constexpr std::string_view kValue = "sk-live-4242424242424242";

class VaultTest : public ::testing::Test {
 protected:
  VaultTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-vault-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
  }
  ~VaultTest() override {
    vault_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string path(const std::string& name = "vault.db") const { return (folder_ / name).string(); }
  static Locked key(char byte = 'k') { return Locked::copy_of(std::string(kKeyBytes, byte)); }
  Vault& vault() {
    if (!vault_) {
      auto opened = Vault::open(path(), key(), clock_);
      EXPECT_TRUE(opened.ok()) << opened.error().message();
      vault_ = std::move(*opened);
    }
    return *vault_;
  }
  void reopen() { vault_.reset(); }

  Result<SecretRow> create(const std::string& name, std::string_view value = kValue,
                           const std::string& tenant = "t1", boost::json::object config = {}) {
    NewSecret secret{name, Locked::copy_of(value), std::move(config), {{"team", "a"}}};
    return run_task(vault().create(tenant, std::move(secret)));
  }
  // Every byte of the database's files.
  std::string on_disk() const {
    std::string out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::stringstream text;
      text << file.rdbuf();
      out += text.str();
    }
    return out;
  }
  void sql(const std::string& text) {
    auto db = store::Connection::open(path());
    ASSERT_TRUE(db.ok());
    auto done = (*db)->exec(text);
    ASSERT_TRUE(done.ok()) << done.error().message();
  }

  ManualClock clock_;
  std::filesystem::path folder_;
  std::unique_ptr<Vault> vault_;
};

TEST_F(VaultTest, KeepsASecretOverARestart) {
  auto made = create("OpenAI");
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_TRUE(made->id.starts_with("sec_"));
  EXPECT_EQ(made->name, "openai");
  EXPECT_EQ(made->version, 1U);
  reopen();
  auto used = vault().use("t1", "OPENAI");
  ASSERT_TRUE(used.ok());
  EXPECT_EQ((*used)->secret.reveal(), kValue);
  EXPECT_EQ((*vault().use("t1", made->id))->secret.reveal(), kValue);
  EXPECT_EQ(vault().list("t1").size(), 1U);
  EXPECT_EQ(vault().list("t1")[0].metadata.at("team"), "a");
}

TEST_F(VaultTest, ARotationReplacesTheValueAndCounts) {
  ASSERT_TRUE(create("a").ok());
  auto before = vault().use("t1", "a");
  clock_.advance(std::chrono::seconds(5));
  auto rotated = run_task(vault().rotate("t1", "a", Locked::copy_of("second-value"), std::nullopt));
  ASSERT_TRUE(rotated.ok());
  EXPECT_EQ(rotated->version, 2U);
  EXPECT_GT(rotated->updated_at, rotated->created_at);
  EXPECT_EQ((*vault().use("t1", "a"))->secret.reveal(), "second-value");
  EXPECT_EQ((*before)->secret.reveal(), kValue);  // a request that is on its way keeps its own
  reopen();
  EXPECT_EQ((*vault().use("t1", "a"))->secret.reveal(), "second-value");
}

TEST_F(VaultTest, ATenantSeesAndChangesOnlyItsOwn) {
  auto made = create("a");
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(create("a", "other-tenants-value", "t2").ok());
  for (const auto& name : {std::string("a"), made->id}) {
    auto used = vault().use("t2", name);
    EXPECT_TRUE(!used.ok() || (*used)->secret.reveal() == "other-tenants-value") << name;
  }
  EXPECT_FALSE(vault().use("t2", made->id).ok());
  EXPECT_FALSE(run_task(vault().remove("t2", made->id)).ok());
  EXPECT_FALSE(run_task(vault().rotate("t2", made->id, Locked::copy_of("x"), std::nullopt)).ok());
  EXPECT_TRUE(vault().use("t1", "a").ok());
}

TEST_F(VaultTest, NamesAreChecked) {
  for (auto name : {"", "a b", "sec_abc", "SEC_ABC", "a\n", "ü", "a/b"}) {
    EXPECT_EQ(create(name).error().code(), Code::kInvalid) << name;
  }
  EXPECT_FALSE(create(std::string(129, 'a')).ok());
  ASSERT_TRUE(create("Twice").ok());
  auto again = create("tWICE");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), Code::kExists);
}

TEST_F(VaultTest, NoValueIsOnTheDiskInClear) {
  ASSERT_TRUE(create("a").ok());
  ASSERT_TRUE(run_task(vault().rotate("t1", "a", Locked::copy_of("another-real-value"), std::nullopt)).ok());
  auto credential = vault().use("t1", "a");
  ASSERT_TRUE(run_task(vault().save_tokens(*credential, Locked::copy_of("minted-access-token"))).ok());
  reopen();
  auto bytes = on_disk();
  ASSERT_NE(bytes.find("t1"), bytes.npos);  // what is searched is the right thing
  for (auto text :
       {kValue, std::string_view("another-real-value"), std::string_view("minted-access-token")}) {
    EXPECT_EQ(bytes.find(text), bytes.npos);
    EXPECT_EQ(bytes.find(base64_encode(text, Padding::kNone)), bytes.npos);
    EXPECT_EQ(bytes.find(hex_encode(text)), bytes.npos);
  }
}

TEST_F(VaultTest, NoErrorTellsAValue) {
  std::string secret = "real-secret\r\nx-evil: 1";
  boost::json::object header{{"type", "header"}, {"name", "x-api-key"}};
  std::vector<Result<SecretRow>> refused;
  refused.push_back(create("a", secret, "t1", header));
  refused.push_back(create("a", "real-secret", "t1", {{"type", "tls_client"}, {"certificate_chain", "c"}}));
  refused.push_back(create("a", "real-secret", "t1", {{"type", "jwt"}, {"algorithm", "HS256"}}));
  refused.push_back(create("a", std::string(Vault::kMaxValue + 1, 's') + "real-secret"));
  for (const auto& one : refused) {
    ASSERT_FALSE(one.ok());
    EXPECT_EQ(one.error().message().find("real-secret"), std::string::npos);
    EXPECT_EQ(one.error().hint().find("real-secret"), std::string::npos);
  }
}

TEST_F(VaultTest, WhatIsSearchedForInAnswersIsNotLarge) {
  std::string most(kMaxSearched, 's');
  boost::json::object header{{"type", "header"}, {"name", "x-api-key"}};
  EXPECT_TRUE(create("a", most, "t1", header).ok());
  EXPECT_EQ(create("b", most + "s", "t1", header).error().code(), Code::kTooLarge);
  EXPECT_EQ(run_task(vault().rotate("t1", "a", Locked::copy_of(most + "s"), std::nullopt)).error().code(),
            Code::kTooLarge);
}

TEST_F(VaultTest, AWrongKeyRefusesToStartAndSaysWhichWasNeeded) {
  ASSERT_TRUE(create("a").ok());
  auto right = vault().key_fingerprint();
  reopen();
  auto opened = Vault::open(path(), key('x'), clock_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().word(), "vault_wrong_key");
  EXPECT_NE(opened.error().message().find(right), std::string::npos);
  EXPECT_NE(opened.error().message().find(fingerprint(key('x'))), std::string::npos);
  EXPECT_EQ((*vault().use("t1", "a"))->secret.reveal(), kValue);  // and nothing has changed
}

TEST_F(VaultTest, RowsCannotTakeEachOthersPlaces) {
  ASSERT_TRUE(create("cheap", "value-of-cheap").ok());
  ASSERT_TRUE(create("dear", "value-of-dear").ok());
  ASSERT_TRUE(create("dear", "value-of-t2", "t2").ok());
  reopen();
  sql("UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'cheap') WHERE name = 'dear'");
  EXPECT_EQ(vault().use("t1", "dear").error().code(), Code::kCorrupt);
  EXPECT_EQ(vault().use("t2", "dear").error().code(), Code::kCorrupt);
  EXPECT_TRUE(vault().use("t1", "cheap").ok());
}

TEST_F(VaultTest, AnOldValueCannotBePutBack) {
  ASSERT_TRUE(create("a").ok());
  reopen();
  sql("CREATE TABLE kept AS SELECT sealed FROM secrets");
  ASSERT_TRUE(run_task(vault().rotate("t1", "a", Locked::copy_of("second-value"), std::nullopt)).ok());
  reopen();
  sql("UPDATE secrets SET sealed = (SELECT sealed FROM kept)");
  EXPECT_EQ(vault().use("t1", "a").error().code(), Code::kCorrupt);
}

TEST_F(VaultTest, ASecretCannotBeGivenToAnotherTenantOrName) {
  ASSERT_TRUE(create("a").ok());
  reopen();
  sql("UPDATE secrets SET tenant = 't2'");
  EXPECT_EQ(vault().use("t2", "a").error().code(), Code::kCorrupt);
  reopen();
  sql("UPDATE secrets SET tenant = 't1', name = 'b'");
  EXPECT_EQ(vault().use("t1", "b").error().code(), Code::kCorrupt);
}

TEST_F(VaultTest, TheMasterKeyCanBeChanged) {
  ASSERT_TRUE(create("a").ok());
  auto derived = vault().derive("x");
  ASSERT_TRUE(run_task(vault().change_key(key('n'))).ok());
  reopen();
  EXPECT_EQ(Vault::open(path(), key(), clock_).error().word(), "vault_wrong_key");
  auto opened = Vault::open(path(), key('n'), clock_);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_EQ((*(*opened)->use("t1", "a"))->secret.reveal(), kValue);
  EXPECT_TRUE((*opened)->derive("x").matches(derived.reveal()));  // authorities stay what they are
  EXPECT_FALSE((*opened)->derive("y").matches(derived.reveal()));
}

TEST_F(VaultTest, ASecondProgramCannotHaveTheFile) {
  ASSERT_TRUE(create("a").ok());
  auto second = Vault::open(path(), key(), clock_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
}

TEST_F(VaultTest, ARemovedSecretIsGoneWithItsBindings) {
  auto made = create("a", kValue, "t1", {{"type", "bearer"}});
  ASSERT_TRUE(made.ok());
  auto rule = parse_binding({{"host", "api.example.com"}});
  ASSERT_TRUE(rule.ok());
  rule->secret = "a";
  auto bound = run_task(vault().bind("t1", *rule));
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_EQ(bound->secret, made->id);
  reopen();
  ASSERT_EQ(vault().bindings().size(), 1U);
  EXPECT_EQ(vault().bindings()[0].host.text(), "api.example.com");
  EXPECT_FALSE(run_task(vault().unbind("t2", bound->id)).ok());
  ASSERT_TRUE(run_task(vault().remove("t1", "a")).ok());
  EXPECT_TRUE(vault().bindings().empty());
  reopen();
  EXPECT_TRUE(vault().bindings().empty());
  EXPECT_FALSE(vault().use("t1", "a").ok());
}

Task<> bind_all(Vault& vault, Binding rule, std::vector<Result<Binding>>& out) {
  out.push_back(co_await vault.bind("t1", std::move(rule)));
}

TEST_F(VaultTest, BindingsAreBoundedByTenantAlsoWhenTheyComeAtOnce) {
  ASSERT_TRUE(create("a", kValue, "t1", {{"type", "bearer"}}).ok());
  ASSERT_TRUE(create("b", kValue, "t2", {{"type", "bearer"}}).ok());
  auto rule = parse_binding({{"host", "api.example.com"}}).value();
  rule.secret = "a";
  std::vector<Result<Binding>> done;
  asio::io_context loop;
  for (std::size_t i = 0; i < Vault::kMaxBindings + 5; ++i)
    asio::co_spawn(loop, bind_all(vault(), rule, done), asio::detached);
  loop.run();
  auto refused = std::count_if(done.begin(), done.end(), [](const auto& one) { return !one.ok(); });
  EXPECT_EQ(refused, 5);
  EXPECT_EQ(vault().bindings().size(), Vault::kMaxBindings);
  rule.secret = "b";
  EXPECT_TRUE(run_task(vault().bind("t2", rule)).ok());
}

TEST_F(VaultTest, TokensOfAnOlderVersionAreForgotten) {
  ASSERT_TRUE(create("a").ok());
  auto old = *vault().use("t1", "a");
  ASSERT_TRUE(run_task(vault().save_tokens(old, Locked::copy_of("old"))).ok());
  EXPECT_EQ(run_task(vault().load_tokens(old))->reveal(), "old");
  ASSERT_TRUE(run_task(vault().rotate("t1", "a", Locked::copy_of("new"), std::nullopt)).ok());
  auto now = *vault().use("t1", "a");
  EXPECT_TRUE(run_task(vault().load_tokens(now))->empty());
  ASSERT_TRUE(
      run_task(vault().save_tokens(old, Locked::copy_of("late"))).ok());  // an exchange that was under way
  EXPECT_TRUE(run_task(vault().load_tokens(now))->empty());
}

TEST_F(VaultTest, ABindingsPathHasNoParameters) {
  ASSERT_TRUE(create("a", kValue, "t1", {{"type", "bearer"}}).ok());
  auto rule = parse_binding({{"host", "api.example.com"}, {"path", "/a;b"}});  // as older ones may be
  ASSERT_TRUE(rule.ok());
  rule->secret = "a";
  EXPECT_EQ(run_task(vault().bind("t1", *rule)).error().word(), "invalid_field");
}

TEST_F(VaultTest, ADamagedFileIsRefused) {
  ASSERT_TRUE(create("a").ok());
  reopen();
  std::ofstream(path(), std::ios::binary | std::ios::trunc) << "no database";
  auto opened = Vault::open(path(), key(), clock_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Code::kCorrupt);
}

TEST_F(VaultTest, AKeyFileIsMadeOnceAndReadOnlyWhenPrivate) {
  auto made = make_key_file(path("key"));
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_TRUE(key_from_file(path("key"))->matches(made->reveal()));
  EXPECT_EQ(make_key_file(path("key")).error().code(), Code::kExists);
  namespace fs = std::filesystem;
  for (auto open : {fs::perms::group_read, fs::perms::others_read, fs::perms::group_write}) {
    fs::permissions(path("key"), fs::perms::owner_read | open);
    auto read = key_from_file(path("key"));
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code(), Code::kDenied);
  }
  fs::permissions(path("key"), fs::perms::owner_read);
  fs::create_symlink(path("key"), path("link"));
  EXPECT_FALSE(key_from_file(path("link")).ok());
}

TEST_F(VaultTest, AKeyFileOfAnotherFormIsRefused) {
  auto write = [this](const std::string& text) {
    std::ofstream(path("key"), std::ios::binary | std::ios::trunc) << text;
    std::filesystem::permissions(path("key"),
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return key_from_file(path("key"));
  };
  EXPECT_TRUE(write(std::string(32, '\xff')).ok());
  EXPECT_TRUE(write(std::string(64, 'a') + "\n").ok());
  for (const auto& text : {std::string(), std::string(31, 'a'), std::string(63, 'a'), std::string(64, 'g')}) {
    auto read = write(text);
    ASSERT_FALSE(read.ok()) << text.size();
    EXPECT_EQ(read.error().word(), "vault_key_invalid");
  }
}

TEST_F(VaultTest, AKeyFromTheEnvironmentIsTakenOutOfIt) {
  std::string text(64, 'b');
  ASSERT_EQ(::setenv("ATOLL_TEST_VAULT_KEY", text.c_str(), 1), 0);
  const char* where = std::getenv("ATOLL_TEST_VAULT_KEY");
  auto read = key_from_environment("ATOLL_TEST_VAULT_KEY");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(hex_encode(read->reveal()), text);
  EXPECT_EQ(std::getenv("ATOLL_TEST_VAULT_KEY"), nullptr);
  EXPECT_EQ(where[0], '\0');  // what the process was started with is overwritten
  EXPECT_EQ(key_from_environment("ATOLL_TEST_VAULT_KEY").error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace atl::gateway::vault
