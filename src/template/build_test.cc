// SPDX-License-Identifier: Apache-2.0
//
// The jail, the store of builds, and whole builds from small trees.
#include "template/build.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sys/files.h"
#include "template/base_recipe.h"
#include "template/jail.h"
#include "template/root_finish.h"
#include "template/tar_builder_for_test.h"

namespace atl::templates {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class BuildTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make user namespaces with a range of ids";
    std::string pattern = (fs::temp_directory_path() / "atoll-build-XXXXXX").string();
    data_ = ::mkdtemp(pattern.data());  // 0700: no build may need the folders above the data directory
    builds_.emplace(Builds::open(data_.string()).value());
  }
  void TearDown() override {
    if (!data_.empty()) fs::remove_all(data_);
  }
  std::vector<std::string> left_over() {
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(data_ / "templates")) {
      if (item.path().filename() != ".lock") names.push_back(item.path().filename());
    }
    return names;
  }
  std::string write(const std::string& name, const std::string& bytes) {
    std::string path = (data_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Result<Manifest> build(const std::string& from) {
    return build_from(*builds_, {.from = from, .name = "mini"}, [](int, std::string_view) {});
  }
  static TarBuilder mini() {
    TarBuilder tar;
    tar.folder("./")
        .folder("./bin")
        .file("./bin/sh", "#!", 0755)
        .folder("./etc")
        .file("./etc/passwd", "root:x:0:0::/:/bin/sh\n");
    return tar;
  }

  fs::path data_;
  std::optional<Builds> builds_;
};

using JailTest = BuildTest;

TEST_F(JailTest, JobSeesOnlyTheWorkFolderAndOwnsNothingOutside) {
  Workspace work = builds_->start().value();
  JailSpec jail{.work = work.path()};
  Result<void> done = run_job(jail, []() -> Result<void> {
    if (::access("/etc/passwd", F_OK) == 0)
      return make_error(Code::kInternal, "the host's files are visible");
    TRY(sys::Fd fd, sys::open_file("/tree/made", O_WRONLY | O_CREAT, 0644));
    return success();
  });
  ASSERT_TRUE(done.ok()) << done.error().message();
  struct stat status{};
  ASSERT_EQ(::stat((work.path() + "/tree/made").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, kJailUidBase);
}

TEST_F(JailTest, ErrorsComeBackWithCodeWordAndHint) {
  Workspace work = builds_->start().value();
  Result<void> done = run_job({.work = work.path()}, []() -> Result<void> {
    return make_error(Code::kTooLarge, "too much").with_word("some_word").with_hint("do less");
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Code::kTooLarge);
  EXPECT_EQ(done.error().message(), "too much");
  EXPECT_EQ(done.error().word(), "some_word");
  EXPECT_EQ(done.error().hint(), "do less");
}

TEST_F(JailTest, CallsThatAreNotOnTheListEndTheParser) {
  Workspace work = builds_->start().value();
  Result<void> done = run_job({.work = work.path()}, []() -> Result<void> {
    ::socket(AF_INET, SOCK_STREAM, 0);
    return success();
  });
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message(), HasSubstr("not on its list"));
}

TEST_F(JailTest, JobThatNeverEndsIsEnded) {
  Workspace work = builds_->start().value();
  JailSpec jail{.work = work.path(), .time_limit = std::chrono::seconds(0)};
  Result<void> done = run_job(jail, []() -> Result<void> {
    for (volatile int i = 0;; i = i + 1) {}
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Code::kDeadline);
}

TEST_F(JailTest, ProgramHasNoNetworkNoEnvironmentAndAnUnknownUser) {
  ::setenv("ATOLL_TEST_SECRET", "leak", 1);
  Workspace work = builds_->start().value();
  JailSpec jail{.work = work.path(), .view = View::kHost};
  std::string output;
  Result<void> done =
      run_program(jail, {"/bin/sh", "-c", "env; cat /etc/shadow; ls /sys/class/net; cat /proc/self/uid_map"},
                  {"PATH=/bin:/usr/bin"}, [&](std::string_view line) { output += std::string(line) + "\n"; });
  EXPECT_TRUE(done.ok());
  EXPECT_THAT(output, Not(HasSubstr("leak")));
  EXPECT_THAT(output, HasSubstr("/etc/shadow: Permission denied"));
  EXPECT_THAT(output, HasSubstr(std::to_string(kJailUidBase)));
}

TEST_F(JailTest, FailedProgramShowsItsLastLines) {
  Workspace work = builds_->start().value();
  JailSpec jail{.work = work.path(), .view = View::kHost};
  Result<void> done =
      run_program(jail, {"/bin/sh", "-c", "echo the reason >&2; exit 3"}, {}, [](std::string_view) {});
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message(), HasSubstr("status 3"));
  EXPECT_THAT(done.error().message(), HasSubstr("the reason"));
}

TEST_F(BuildTest, TarballBecomesABuild) {
  Result<Manifest> made = build(write("root.tar", mini().end().bytes()));
  ASSERT_TRUE(made.ok()) << made.error().message();
  fs::path folder = data_ / "templates" / made->build;
  EXPECT_EQ(fs::file_size(folder / "root.erofs"), made->size_bytes);
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms(0755));
  struct stat status{};
  ASSERT_EQ(::stat((folder / "root.erofs").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 0u);
  ASSERT_EQ(builds_->list().size(), 1u);
  EXPECT_EQ(builds_->list()[0].sha256, made->sha256);
  EXPECT_THAT(left_over(), ElementsAre(made->build));
}

TEST_F(BuildTest, FolderBecomesABuild) {
  fs::path from = data_ / "from";
  fs::create_directories(from / "bin");
  std::ofstream(from / "bin/sh") << "#!";
  std::ofstream(from / "bin/private") << "only root reads this";
  fs::permissions(from / "bin/private", fs::perms(0600));
  Result<Manifest> made = build(from.string());
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->source, "folder");
}

TEST_F(BuildTest, HostileTarballLeavesNothing) {
  Result<Manifest> made = build(write("root.tar", mini().symlink("dev", "../../..").end().bytes()));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), HasSubstr("'dev'"));
  EXPECT_EQ(made.error().word(), "template_entry_refused");
  EXPECT_THAT(left_over(), IsEmpty());
}

TEST_F(BuildTest, TreeWithoutAShellIsRefused) {
  Result<Manifest> made = build(write("root.tar", TarBuilder().file("a", "x").end().bytes()));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), HasSubstr("/bin/sh"));
}

TEST_F(BuildTest, MissingSourceIsNamed) {
  Result<Manifest> made = build("/nowhere/root.tar");
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), HasSubstr("/nowhere/root.tar"));
}

TEST_F(BuildTest, LeftoversOfAKilledBuildAreSweptAndLivingOnesAreNot) {
  fs::create_directories(data_ / "templates/.build-dead/tree");
  fs::create_directories(data_ / "templates/.new-dead");
  Workspace living = builds_->start().value();
  ASSERT_TRUE(Builds::open(data_.string()).ok());
  EXPECT_THAT(left_over(), ElementsAre(".build-" + living.build()));
}

TEST_F(BuildTest, HalfABuildIsNotListed) {
  fs::path half = data_ / "templates" / "0b1c2d3e-0000-4000-8000-000000000001";
  fs::create_directories(half);
  EXPECT_THAT(builds_->list(), IsEmpty());
  std::ofstream(half / "manifest.json") << "{\"version\":1";
  EXPECT_THAT(builds_->list(), IsEmpty());
}

TEST_F(BuildTest, ImageThatIsALinkIsNotSealed) {
  Workspace work = builds_->start().value();
  fs::create_symlink("/etc/shadow", work.path() + "/root.erofs");
  Result<Manifest> made = builds_->publish(work, {.name = "mini"});
  EXPECT_FALSE(made.ok());
  EXPECT_THAT(builds_->list(), IsEmpty());
}

TEST_F(BuildTest, RemovedBuildIsGone) {
  Result<Manifest> made = build(write("root.tar", mini().end().bytes()));
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(builds_->remove(made->build).ok());
  EXPECT_THAT(left_over(), IsEmpty());
  EXPECT_EQ(builds_->remove(made->build).error().code(), Code::kNotFound);
  EXPECT_EQ(builds_->remove("../../etc").error().code(), Code::kNotFound);
}

TEST(ManifestText, RoundTrips) {
  Manifest m{.build = "0b1c2d3e-0000-4000-8000-000000000001",
             .name = "base",
             .source = "debian",
             .suite = "bookworm",
             .recipe = "1",
             .created = {1'700'000'000'123},
             .default_user = "user",
             .workdir = "/home/user",
             .size_bytes = 5'000'000'000,
             .sha256 = std::string(64, 'a')};
  Result<Manifest> read = parse_manifest(format_manifest(m));
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->build, m.build);
  EXPECT_EQ(read->created, m.created);
  EXPECT_EQ(read->size_bytes, m.size_bytes);
}

TEST(ManifestText, DamageIsRefused) {
  EXPECT_FALSE(parse_manifest("").ok());
  EXPECT_FALSE(parse_manifest("[]").ok());
  EXPECT_FALSE(parse_manifest("{\"version\":2}").ok());
  EXPECT_FALSE(parse_manifest("{\"version\":\"1\"}").ok());
}

TEST(Account, IsAddedOnceWithAFreeId) {
  std::string passwd = "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh";
  std::string group = "root:x:0:\nstaff:x:1001:\n";
  EXPECT_EQ(ensure_account(passwd, group, "/bin/bash"), 1002u);
  EXPECT_THAT(passwd, HasSubstr("/bin/sh\nuser:*:1002:1002::/home/user:/bin/bash\n"));
  std::string again = passwd;
  EXPECT_EQ(ensure_account(again, group, "/bin/bash"), 1002u);
  EXPECT_EQ(again, passwd);
}

TEST(Account, LineThatCannotBeReadIsNoAccount) {
  std::string passwd = "root:x:zero:0::/root:/bin/sh\nuser:x:-1:0::/:/bin/sh\n", group;
  EXPECT_EQ(ensure_account(passwd, group, "/bin/sh"), 1000u);
  std::string again = passwd;
  EXPECT_EQ(ensure_account(again, group, "/bin/sh"), 1000u);
  EXPECT_EQ(again, passwd);
}

TEST(Recipe, TakesTheHostsMirrorsOfTheSuiteOnly) {
  std::string targets =
      "http://mirror.example/debian/ bookworm main \n"
      "http://mirror.example/debian/ bookworm-updates main \n"
      "http://mirror.example/debian/ bookworm contrib \n"
      "http://other.example/node nodistro main \n"
      "cdrom://x/ bookworm main\n";
  EXPECT_THAT(mirror_lines(targets, "bookworm"),
              ElementsAre("deb http://mirror.example/debian/ bookworm main",
                          "deb http://mirror.example/debian/ bookworm-updates main"));
  EXPECT_THAT(mirror_lines(targets, "trixie"), IsEmpty());
}

TEST(Recipe, TakesDownloadSettingsOnly) {
  std::string dump =
      "Acquire::http::Proxy \"http://proxy:3128\";\nAcquire::http::Proxy-Auto-Detect \"/usr/bin/x\";\n"
      "Acquire::Check-Date \"false\";\nAPT::Update::Post-Invoke \"evil\";\nAcquire::http "
      "\"\";\nAcquire::AllowInsecureRepositories \"1\";\n";
  EXPECT_THAT(download_options(dump),
              ElementsAre("Acquire::http::Proxy \"http://proxy:3128\";", "Acquire::Check-Date \"false\";"));
}

TEST(Recipe, KnowsItsSuites) {
  EXPECT_EQ(host_suite("NAME=x\nVERSION_CODENAME=trixie\n"), "trixie");
  EXPECT_EQ(host_suite("VERSION_CODENAME=noble\n"), "bookworm");
  EXPECT_THAT(recipe_script(*find_recipe("base"), "trixie"),
              HasSubstr("debian-security trixie-security main"));
  EXPECT_THAT(recipe_script(*find_recipe("base"), "trixie"), Not(HasSubstr("@SUITE@")));
}

TEST(Recipe, PutsTheInterpreterIntoItsTemplateAlone) {
  const Recipe* interpreter = find_recipe("code-interpreter-v1");
  ASSERT_NE(interpreter, nullptr);
  EXPECT_EQ(find_recipe("other"), nullptr);
  EXPECT_THAT(recipe_script(*interpreter, "trixie"), HasSubstr("etc/atoll/start.json"));
  EXPECT_THAT(recipe_script(*find_recipe("base"), "trixie"), Not(HasSubstr("start.json")));
  EXPECT_THAT(recipe_command(*interpreter, "trixie", AptHost()),
              Contains(HasSubstr("zip,python3-ipykernel,")));
  EXPECT_THAT(recipe_command(*find_recipe("base"), "trixie", AptHost()),
              Not(Contains(HasSubstr("ipykernel"))));
}

TEST(Recipe, IsOutOfDateWhenTheInterpreterHasChanged) {
  const Recipe& recipe = *find_recipe("code-interpreter-v1");
  std::string path = ::testing::TempDir() + "/atoll-stamp-" + std::to_string(::getpid());
  auto stamp_of = [&](const std::string& program) {
    std::ofstream(path) << program;
    return *recipe_stamp(recipe, path);
  };
  std::string first = stamp_of("one");
  EXPECT_NE(stamp_of("two"), first);
  EXPECT_EQ(stamp_of("one"), first);
  std::remove(path.c_str());
  EXPECT_FALSE(recipe_stamp(recipe, path).ok());
  EXPECT_EQ(*recipe_stamp(*find_recipe("base"), ""), find_recipe("base")->version);
}

}  // namespace
}  // namespace atl::templates
