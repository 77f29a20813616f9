// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/key_change.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "gateway/vault/master_key.h"
#include "support/run_task.h"

namespace atl::gateway::vault {
namespace {

namespace fs = std::filesystem;
using test_support::run_task;

constexpr std::string_view kValue = "sk-live-4242424242424242";

class KeyChangeTest : public ::testing::Test {
 protected:
  KeyChangeTest() : folder_(fs::temp_directory_path() / ("atoll-key-change-" + random_hex(8))) {
    fs::create_directories(folder_);
    start();
    NewSecret secret{"a", Locked::copy_of(kValue), {}, {}};
    EXPECT_TRUE(run_task(vault_->create("t", std::move(secret))).ok());
  }
  ~KeyChangeTest() override {
    vault_.reset();
    fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string key_text() const {
    std::ifstream file(path("key"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void start() {
    vault_.reset();
    auto opened = open_with_key_file(path("vault.db"), path("key"), clock_);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    vault_ = std::move(*opened);
  }
  void expect_whole() {
    start();
    auto used = vault_->use("t", "a");
    ASSERT_TRUE(used.ok()) << used.error().message();
    EXPECT_EQ((*used)->secret.reveal(), kValue);
    EXPECT_FALSE(fs::exists(path("key.next")));
  }

  ManualClock clock_;
  fs::path folder_;
  std::unique_ptr<Vault> vault_;
};

TEST_F(KeyChangeTest, TheOldKeyOpensNothingAfterwards) {
  std::string before = key_text();
  fs::copy_file(path("key"), path("old"));
  ASSERT_TRUE(run_task(change_key_file(*vault_, path("key"))).ok());
  EXPECT_NE(key_text(), before);
  expect_whole();
  vault_.reset();
  EXPECT_EQ(open_with_key_file(path("vault.db"), path("old"), clock_).error().word(), "vault_wrong_key");
}

TEST_F(KeyChangeTest, ADeathBeforeTheVaultIsSealedAnewLeavesTheOldKey) {
  std::string before = key_text();
  ASSERT_TRUE(make_key_file(path("key.next")).ok());
  expect_whole();
  EXPECT_EQ(key_text(), before);
}

TEST_F(KeyChangeTest, ADeathAfterItIsFinishedAtTheNextStart) {
  auto next = make_key_file(path("key.next"));
  ASSERT_TRUE(next.ok());
  ASSERT_TRUE(run_task(vault_->change_key(std::move(*next))).ok());
  expect_whole();
  EXPECT_TRUE(run_task(change_key_file(*vault_, path("key"))).ok());
  expect_whole();
}

TEST_F(KeyChangeTest, AFileThatCannotBeReplacedLosesNothing) {
  std::string before = key_text();
  // A folder in its place: nothing can be renamed to it.
  fs::rename(path("key"), path("kept"));
  fs::create_directory(path("key"));
  EXPECT_FALSE(run_task(change_key_file(*vault_, path("key"))).ok());
  fs::remove(path("key"));
  fs::rename(path("kept"), path("key"));
  ASSERT_TRUE(run_task(change_key_file(*vault_, path("key"))).ok());  // takes up what was left, and goes on
  EXPECT_NE(key_text(), before);
  expect_whole();
}

TEST_F(KeyChangeTest, WhatAnUnknownChangeLeftIsNotTouched) {
  ASSERT_TRUE(make_key_file(path("key.next")).ok());
  EXPECT_EQ(run_task(change_key_file(*vault_, path("key"))).error().word(), "key_changing");
  EXPECT_TRUE(fs::exists(path("key.next")));
  expect_whole();
}

TEST_F(KeyChangeTest, AKeyOfAnotherVaultIsRefused) {
  ASSERT_TRUE(make_key_file(path("other")).ok());
  vault_.reset();
  EXPECT_EQ(open_with_key_file(path("vault.db"), path("other"), clock_).error().word(), "vault_wrong_key");
}

}  // namespace
}  // namespace atl::gateway::vault
