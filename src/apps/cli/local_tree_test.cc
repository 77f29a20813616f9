// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/local_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "sys/files.h"

namespace atl::cli {
namespace {

class LocalTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-cli-tree-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string root_;
};

TEST_F(LocalTreeTest, AFileAppearsWholeWithItsMode) {
  auto tree = LocalTree::open(root_ + "/new");
  ASSERT_TRUE(tree.ok());
  {
    auto file = tree->create("a/b");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("text").ok());
    EXPECT_FALSE(std::filesystem::exists(root_ + "/new/a/b"));
    ASSERT_TRUE(file->commit(04755).ok());
  }
  EXPECT_EQ(sys::read_file(root_ + "/new/a/b", 100).value(), "text");
  struct stat info{};
  ::stat((root_ + "/new/a/b").c_str(), &info);
  EXPECT_EQ(info.st_mode & 07777, 0755u) << "set-uid bits of a sandbox never come out";
}

TEST_F(LocalTreeTest, WithoutCommitNothingIsLeft) {
  auto tree = LocalTree::open(root_);
  { ASSERT_TRUE(tree->create("a")->write("half").ok()); }
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(LocalTreeTest, PathsThatLeadOutAreRefused) {
  auto tree = LocalTree::open(root_);
  for (const char* path : {"../x", "/etc/x", "a/../../x", ".", ""}) {
    EXPECT_FALSE(tree->create(path).ok()) << path;
    EXPECT_FALSE(tree->make_directory(path, 0755).ok()) << path;
  }
}

// A link that is already in the target must not carry a file of the sandbox somewhere else.
TEST_F(LocalTreeTest, ALinkInTheTargetIsNotFollowed) {
  std::filesystem::create_directory(root_ + "/outside");
  std::filesystem::create_directory(root_ + "/target");
  std::filesystem::create_symlink(root_ + "/outside", root_ + "/target/link");
  std::filesystem::create_symlink(root_ + "/outside/file", root_ + "/target/file");
  auto tree = LocalTree::open(root_ + "/target");
  EXPECT_FALSE(tree->create("link/x").ok());
  auto file = tree->create("file");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("x").ok());
  ASSERT_TRUE(file->commit(0644).ok());
  EXPECT_TRUE(std::filesystem::is_empty(root_ + "/outside"));
  EXPECT_FALSE(std::filesystem::is_symlink(root_ + "/target/file")) << "the link is replaced";
}

}  // namespace
}  // namespace atl::cli
