// SPDX-License-Identifier: Apache-2.0
//
// Goal: every known way of climbing out of a tree with an archive is refused, with the entry named, and
// nothing outside the tree is touched. Method: hostile archives made byte by byte, unpacked into a folder
// that has a canary beside it.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sys/files.h"
#include "template/archive_reader.h"
#include "template/folder_reader.h"
#include "template/tar_builder_for_test.h"

namespace atl::templates {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ArchiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give files the owners of the archive";
    std::string pattern = (fs::temp_directory_path() / "atoll-archive-XXXXXX").string();
    top_ = ::mkdtemp(pattern.data());
    fs::create_directories(top_ / "tree");
    fs::create_directories(top_ / "outside");
    std::ofstream(top_ / "outside" / "canary") << "untouched";
  }
  void TearDown() override {
    if (top_.empty()) return;
    std::ifstream canary(top_ / "outside" / "canary");
    std::string text{std::istreambuf_iterator<char>(canary), {}};
    EXPECT_EQ(text, "untouched");
    EXPECT_EQ(std::distance(fs::directory_iterator(top_ / "outside"), {}), 1);
    fs::remove_all(top_);
  }

  Result<void> unpack(const std::string& bytes, TreeLimits limits = {}) {
    sys::Fd file(::memfd_create("archive", MFD_CLOEXEC));
    EXPECT_TRUE(sys::write_all(file.get(), bytes).ok());
    ::lseek(file.get(), 0, SEEK_SET);
    Result<sys::Fd> root = sys::open_file((top_ / "tree").string(), O_RDONLY | O_DIRECTORY);
    TreeWriter tree(root->get(), limits);
    Result<void> done = read_archive(file.get(), tree, limits);
    totals_ = tree.totals();
    return done;
  }

  void expect_refused(const TarBuilder& tar, const std::string& entry) {
    Result<void> done = unpack(tar.bytes());
    ASSERT_FALSE(done.ok());
    EXPECT_THAT(done.error().message(), HasSubstr(entry));
  }

  std::string read(const std::string& path) {
    std::ifstream file(top_ / "tree" / path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path top_;
  TreeTotals totals_;
};

TEST_F(ArchiveTest, AnHonestTreeArrivesWhole) {
  TarBuilder tar;
  tar.folder("./").folder("./usr/").folder("./usr/bin/").file("./usr/bin/su", "program", 04755);
  tar.symlink("./bin", "usr/bin")
      .symlink("./up", "../../../etc")
      .hardlink("./usr/bin/su2", "./usr/bin/su")
      .end();
  Result<void> done = unpack(tar.bytes());
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_EQ(read("usr/bin/su"), "program");
  struct stat status{};
  ASSERT_EQ(::stat((top_ / "tree/usr/bin/su2").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 04755u);
  EXPECT_EQ(status.st_nlink, 2u);
  EXPECT_EQ(status.st_mtime, 1'700'000'000);
  EXPECT_EQ(fs::read_symlink(top_ / "tree/up"), "../../../etc");
  EXPECT_EQ(totals_.entries, 7u);
}

TEST_F(ArchiveTest, NamesThatDifferOnlyInCaseStayTwoFiles) {
  TarBuilder tar;
  ASSERT_TRUE(unpack(tar.file("Readme", "one").file("README", "two").end().bytes()).ok());
  EXPECT_EQ(read("Readme"), "one");
  EXPECT_EQ(read("README"), "two");
}

TEST_F(ArchiveTest, AbsolutePathIsRefused) {
  expect_refused(TarBuilder().file("/etc/cron.d/x", "x").end(), "/etc/cron.d/x");
}

TEST_F(ArchiveTest, DotDotIsRefused) {
  expect_refused(TarBuilder().file("../outside/canary", "x").end(), "../outside/canary");
  expect_refused(TarBuilder().folder("a").file("a/../../outside/canary", "x").end(),
                 "a/../../outside/canary");
}

TEST_F(ArchiveTest, FileBehindASymlinkOfTheArchiveIsRefused) {
  TarBuilder tar;
  expect_refused(tar.symlink("door", (top_ / "outside").string()).file("door/canary", "x").end(),
                 "door/canary");
}

TEST_F(ArchiveTest, FileInPlaceOfASymlinkIsRefused) {
  TarBuilder tar;
  expect_refused(tar.symlink("door", (top_ / "outside/canary").string()).file("door", "x").end(), "door");
}

TEST_F(ArchiveTest, FolderInPlaceOfASymlinkIsRefused) {
  TarBuilder tar;
  expect_refused(tar.symlink("door", (top_ / "outside").string()).folder("door").end(), "door");
}

TEST_F(ArchiveTest, HardLinkThroughAChainOfSymlinksIsRefused) {
  TarBuilder tar;
  tar.folder("a").folder("a/b").folder("a/b/c").symlink("a/b/c/up", "../..").symlink("a/b/c/up2", "up/..");
  expect_refused(tar.hardlink("loot", "a/b/c/up2/outside/canary").end(), "loot");
}

TEST_F(ArchiveTest, HardLinkOutsideIsRefused) {
  expect_refused(TarBuilder().hardlink("loot", "/etc/shadow").end(), "loot");
  expect_refused(TarBuilder().hardlink("loot", "../outside/canary").end(), "loot");
  expect_refused(TarBuilder().hardlink("loot", "nothing/here").end(), "loot");
}

TEST_F(ArchiveTest, HardLinkToASymlinkIsRefused) {
  expect_refused(TarBuilder().symlink("s", "../outside/canary").hardlink("loot", "s").end(), "loot");
}

TEST_F(ArchiveTest, DevicesAndFifosAreRefused) {
  expect_refused(TarBuilder().raw({.name = "disk", .type = '4'}).end(), "disk");
  expect_refused(TarBuilder().raw({.name = "srv/null", .type = '3'}).end(), "srv/null");
  expect_refused(TarBuilder().raw({.name = "pipe", .type = '6'}).end(), "pipe");
}

TEST_F(ArchiveTest, PaxPathThatLeavesIsRefused) {
  expect_refused(TarBuilder().pax("path", "../outside/canary").file("innocent", "x").end(),
                 "../outside/canary");
}

TEST_F(ArchiveTest, PaxLinkPathThatLeavesIsRefused) {
  expect_refused(TarBuilder().pax("linkpath", "../outside/canary").hardlink("loot", "innocent").end(),
                 "loot");
}

TEST_F(ArchiveTest, PaxSizeBeyondTheDataIsRefused) {
  TarBuilder tar;
  tar.pax("size", "100000").file("short", "only this").end();
  Result<void> done = unpack(tar.bytes());
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message(), HasSubstr("short"));
}

TEST_F(ArchiveTest, PaxSizeBelowTheDataIsRefused) {
  // With size 0 the next header is looked for in the file's own bytes.
  TarBuilder tar;
  EXPECT_FALSE(unpack(tar.pax("size", "0").file("short", std::string(512, 'x')).end().bytes()).ok());
}

TEST_F(ArchiveTest, GnuLongNameThatLeavesIsRefused) {
  std::string name = std::string(60, 'd') + "/../../" + std::string(120, 'e');
  expect_refused(TarBuilder().gnu_longname(name).file("innocent", "x").end(), std::string(60, 'd'));
}

TEST_F(ArchiveTest, DuplicateIsRefused) {
  expect_refused(TarBuilder().file("twice", "one").file("twice", "two").end(), "twice");
  expect_refused(TarBuilder().file("other", "one").symlink("other", "/etc").end(), "other");
}

TEST_F(ArchiveTest, FileUsedAsFolderIsRefused) {
  expect_refused(TarBuilder().file("plain", "x").file("plain/inner", "y").end(), "plain/inner");
}

TEST_F(ArchiveTest, EntriesBehindTheEndMarkAreRefused) {
  TarBuilder tar;
  tar.file("first", "x").end().file("hidden", "y").end();
  Result<void> done = unpack(tar.bytes());
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message(), HasSubstr("behind its end mark"));
}

TEST_F(ArchiveTest, PaddingBehindTheEndMarkIsFine) {
  std::string padded = TarBuilder().file("first", "x").end().bytes() + std::string(3 << 20, '\0');
  EXPECT_TRUE(unpack(padded).ok());
  fs::remove_all(top_ / "tree");
  fs::create_directory(top_ / "tree");
  EXPECT_FALSE(unpack(padded + "x").ok());
}

TEST_F(ArchiveTest, MountFoldersAsLinksAreRefused) {
  for (const char* name : {"dev", "proc", "sys"}) {
    expect_refused(TarBuilder().symlink(name, "../../..").end(), name);
  }
  expect_refused(TarBuilder().folder("etc").symlink("etc/passwd", "/etc/shadow").end(), "etc/passwd");
}

TEST_F(ArchiveTest, OwnerOutsideTheSandboxIsRefused) {
  expect_refused(TarBuilder().raw({.name = "far", .uid = 70000}).end(), "far");
}

TEST_F(ArchiveTest, DamageIsRefused) {
  std::string bytes = TarBuilder().file("a", "x").file("b", "y").end().bytes();
  for (std::size_t cut : {std::size_t{100}, std::size_t{700}, std::size_t{1100}}) {
    EXPECT_FALSE(unpack(bytes.substr(0, cut)).ok()) << cut;
    fs::remove_all(top_ / "tree");
    fs::create_directory(top_ / "tree");
  }
  std::string flipped = bytes;
  flipped[1024 + 10] = 'z';  // inside the second header: its checksum no longer fits
  EXPECT_FALSE(unpack(flipped).ok());
}

TEST_F(ArchiveTest, EmptyAndForeignFilesAreRefused) {
  EXPECT_FALSE(unpack("").ok());
  EXPECT_FALSE(unpack(std::string(1024, '\0')).ok());
  EXPECT_FALSE(unpack("#!/bin/sh\necho this is no archive\n").ok());
}

TEST_F(ArchiveTest, TooManyEntriesOrBytesAreRefused) {
  std::string bytes = TarBuilder().file("a", "12345").file("b", "12345").end().bytes();
  TreeLimits few;
  few.entries = 1;
  Result<void> done = unpack(bytes, few);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Code::kTooLarge);
  fs::remove_all(top_ / "tree");
  fs::create_directory(top_ / "tree");
  TreeLimits small;
  small.bytes = 9;
  done = unpack(bytes, small);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Code::kTooLarge);
  EXPECT_THAT(done.error().message(), HasSubstr("'b'"));
}

// Compresses with libarchive's own writer.
std::string gzip(const std::string& bytes) {
  std::string out(bytes.size() + 65536, '\0');
  std::size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_add_filter_gzip(writer);
  archive_write_set_format_raw(writer);
  archive_write_open_memory(writer, out.data(), out.size(), &used);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(writer, entry);
  archive_write_data(writer, bytes.data(), bytes.size());
  archive_entry_free(entry);
  archive_write_close(writer);
  archive_write_free(writer);
  out.resize(used);
  return out;
}

TEST_F(ArchiveTest, CompressedArchiveArrives) {
  ASSERT_TRUE(unpack(gzip(TarBuilder().file("a", "text").end().bytes())).ok());
  EXPECT_EQ(read("a"), "text");
}

TEST_F(ArchiveTest, BombStopsAtTheBound) {
  std::string bomb = gzip(TarBuilder().file("zeros", std::string(8 << 20, '\0')).end().bytes());
  ASSERT_LT(bomb.size(), 100'000u);
  TreeLimits limits;
  limits.stream_bytes = 1 << 20;
  Result<void> done = unpack(bomb, limits);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message(), HasSubstr("unpacks to more than 1 MiB"));
}

TEST_F(ArchiveTest, FolderIsCopiedUnderTheSameRules) {
  fs::path from = top_ / "from";
  fs::create_directories(from / "usr/bin");
  std::ofstream(from / "usr/bin/tool") << "tool";
  fs::create_hard_link(from / "usr/bin/tool", from / "usr/bin/tool2");
  fs::create_symlink("../outside", from / "link");
  auto copy = [&](const fs::path& to) {
    Result<sys::Fd> source = sys::open_file(from.string(), O_RDONLY | O_DIRECTORY);
    Result<sys::Fd> root = sys::open_file(to.string(), O_RDONLY | O_DIRECTORY);
    TreeWriter tree(root->get(), {});
    return read_folder(source->get(), tree);
  };
  Result<void> done = copy(top_ / "tree");
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_EQ(read("usr/bin/tool2"), "tool");
  EXPECT_EQ(fs::hard_link_count(top_ / "tree/usr/bin/tool"), 2u);
  EXPECT_TRUE(fs::is_symlink(top_ / "tree/link"));
  ASSERT_EQ(::mkfifo((from / "pipe").c_str(), 0600), 0);
  fs::create_directory(top_ / "second");
  done = copy(top_ / "second");
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message(), HasSubstr("'pipe' is a FIFO"));
}

}  // namespace
}  // namespace atl::templates
