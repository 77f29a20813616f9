// SPDX-License-Identifier: Apache-2.0
#include "template/entry.h"

#include <gtest/gtest.h>

namespace atl::templates {
namespace {

TEST(CleanPath, DropsLeadingDotAndTrailingSlash) {
  EXPECT_EQ(clean_path("./a/b/").value(), "a/b");
  EXPECT_EQ(clean_path("./").value(), "");
  EXPECT_EQ(clean_path(".").value(), "");
  EXPECT_EQ(clean_path("././a").value(), "a");
  EXPECT_EQ(clean_path("...").value(), "...");
  EXPECT_EQ(clean_path("a\nb").value(), "a\nb");
}

TEST(CleanPath, RefusesEverySpellingThatLeavesTheTreeOrIsAmbiguous) {
  for (const char* path :
       {"/etc/passwd", "../x", "a/../../x", "a/..", "..", "a//b", "a/./b", "//", "", "./../x", "a/b/."}) {
    EXPECT_FALSE(clean_path(path).ok()) << path;
  }
  EXPECT_FALSE(clean_path(std::string_view("a\0b", 3)).ok());
}

TEST(CleanPath, RefusesWhatIsTooLongOrTooDeep) {
  EXPECT_TRUE(clean_path(std::string(255, 'n')).ok());
  EXPECT_FALSE(clean_path(std::string(256, 'n')).ok());
  std::string deep = "d";
  for (int i = 0; i < 127; ++i) deep += "/d";
  EXPECT_TRUE(clean_path(deep).ok());
  EXPECT_FALSE(clean_path(deep + "/d").ok());
  std::string longer;
  while (longer.size() <= kMaxPathBytes) longer += std::string(200, 'x') + "/";
  EXPECT_FALSE(clean_path(longer + "x").ok());
}

TEST(CleanPath, RefusesLayerWhiteouts) {
  EXPECT_FALSE(clean_path("a/.wh.b").ok());
  EXPECT_FALSE(clean_path(".wh..wh..opq").ok());
}

TEST(Judge, RefusesWhatASandboxMustNotHold) {
  for (EntryKind kind : {EntryKind::kDevice, EntryKind::kFifo, EntryKind::kSocket}) {
    EXPECT_FALSE(judge({.kind = kind, .path = "srv/x"}).ok());
  }
  EXPECT_FALSE(judge({.path = "a", .uid = 65536}).ok());
  EXPECT_TRUE(judge({.path = "a", .uid = 65535}).ok());
  EXPECT_FALSE(judge({.path = "a", .gid = 1ull << 32}).ok());
}

TEST(Judge, RefusesLinksInPlaceOfWhatIsOpenedByName) {
  for (const char* path :
       {"dev", "proc", "sys", "run", "tmp", "etc", "home", "home/user", "etc/passwd", "etc/group"}) {
    EXPECT_FALSE(judge({.kind = EntryKind::kSymlink, .path = path, .target = "/x"}).ok()) << path;
  }
  EXPECT_FALSE(judge({.kind = EntryKind::kFile, .path = "dev"}).ok());
  EXPECT_TRUE(judge({.kind = EntryKind::kSymlink, .path = "lib", .target = "usr/lib"}).ok());
}

TEST(Judge, SkipsPlainThingsBelowMountedFolders) {
  EXPECT_EQ(judge({.path = "dev/console"}).value(), Verdict::kSkip);
  EXPECT_EQ(judge({.kind = EntryKind::kDirectory, .path = "proc/1"}).value(), Verdict::kSkip);
  EXPECT_EQ(judge({.kind = EntryKind::kDirectory, .path = "dev"}).value(), Verdict::kTake);
  EXPECT_FALSE(judge({.kind = EntryKind::kSymlink, .path = "dev/stdin", .target = "/proc/self/fd/0"}).ok());
}

TEST(Describe, CutsAndCleansNames) {
  EXPECT_EQ(describe(std::string("a\x1b[31m")).find('\x1b'), std::string::npos);
  EXPECT_LT(describe(std::string(5000, 'x')).size(), 300u);
}

}  // namespace
}  // namespace atl::templates
