// SPDX-License-Identifier: Apache-2.0
//
// The walk in place of openat2(2) must decide as the kernel does. Each case is asked of both.
#include "guest/open_walk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "guest/posix.h"

namespace atl::guest {
namespace {

class OpenWalk : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-walk-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    std::filesystem::create_directories(directory_ + "/a/b");
    std::ofstream(directory_ + "/a/b/file") << "content";
    for (auto [target, link] : {std::pair("a", "to-a"),
                                {"a/b/file", "to-file"},
                                {"to-a/b", "chain"},
                                {"loop", "loop"},
                                {"missing", "dangling"},
                                {"../../../../../../etc", "up"}}) {
      std::filesystem::create_symlink(target, directory_ + "/" + link);
    }
    std::filesystem::create_symlink(directory_ + "/a", directory_ + "/absolute");
    auto top = open_at(AT_FDCWD, directory_, O_PATH | O_DIRECTORY);
    ASSERT_TRUE(top.ok());
    top_ = std::move(*top);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // What was opened, or the error, as text.
  static std::string outcome(const Result<Fd>& fd) {
    if (!fd.ok()) return ::strerrorname_np(fd.error().sys_errno());
    struct stat st = {};
    EXPECT_EQ(::fstat(fd->get(), &st), 0);
    EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
    return fmt::format("{}:{} {:o}", st.st_dev, st.st_ino, st.st_mode);
  }
  void same(const std::string& path, int flags, std::uint64_t resolve = 0) {
    std::string kernel = outcome(open_at(top_.get(), path, flags, 0, resolve));
    std::string walk = outcome(open_by_walk(top_.get(), path, flags, 0, resolve | RESOLVE_NO_MAGICLINKS));
    EXPECT_EQ(walk, kernel) << path << " with flags " << std::oct << flags;
  }

  std::string directory_;
  Fd top_;
};

TEST_F(OpenWalk, DecidesAsTheKernelDoes) {
  const int kinds[] = {O_RDONLY,
                       O_PATH,
                       O_PATH | O_NOFOLLOW,
                       O_RDONLY | O_NOFOLLOW,
                       O_RDONLY | O_DIRECTORY,
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                       O_PATH | O_DIRECTORY,
                       O_WRONLY};
  for (const char* path : {"a",
                           "a/b",
                           "a/b/file",
                           "to-a",
                           "to-a/b/file",
                           "to-file",
                           "chain/file",
                           "chain",
                           "loop",
                           "loop/x",
                           "dangling",
                           "up",
                           "up/hostname",
                           "absolute/b/file",
                           "absolute",
                           ".",
                           "..",
                           "a/..",
                           "a/./b",
                           "a//b",
                           "a/",
                           "a/b/file/",
                           "a/b/file/x",
                           "missing",
                           "missing/x",
                           "/",
                           "/etc",
                           "/proc/self/status",
                           "/proc/mounts",
                           "/proc/self/exe",
                           "/proc/self/cwd",
                           "/proc/self/cwd/x",
                           "/proc/self/root/etc",
                           "/proc/self/fd/0",
                           "/proc/self/ns/net",
                           ""}) {
    for (int flags : kinds) same(path, flags);
  }
}

TEST_F(OpenWalk, FollowsNoLinkWhereNoneIsAllowed) {
  for (const char* path : {"a/b", "to-a", "to-a/b", "a/b/file", "absolute/b", "."})
    for (int flags : {O_RDONLY, O_PATH | O_DIRECTORY, O_PATH | O_NOFOLLOW})
      same(path, flags, RESOLVE_NO_SYMLINKS);
}

TEST_F(OpenWalk, CreatesWhereTheKernelWould) {
  EXPECT_TRUE(open_by_walk(top_.get(), "a/new", O_WRONLY | O_CREAT | O_EXCL, 0640, 0).ok());
  struct stat st = {};
  ASSERT_EQ(::stat((directory_ + "/a/new").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640u & ~::umask(022));
  EXPECT_EQ(open_by_walk(top_.get(), "dangling", O_WRONLY | O_CREAT | O_EXCL, 0640, 0).error().sys_errno(),
            EEXIST);
  EXPECT_TRUE(open_by_walk(top_.get(), "dangling", O_WRONLY | O_CREAT, 0640, 0).ok());
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/missing"));
  auto nameless = open_by_walk(top_.get(), ".", O_RDWR | O_TMPFILE, 0600, 0);
  EXPECT_TRUE(nameless.ok() || nameless.error().sys_errno() == EOPNOTSUPP);
}

TEST_F(OpenWalk, RefusesRulesThatItDoesNotKnow) {
  EXPECT_EQ(open_by_walk(top_.get(), "a", O_RDONLY, 0, RESOLVE_BENEATH).error().sys_errno(), EINVAL);
}

}  // namespace
}  // namespace atl::guest
