// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/parse.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "apps/cli/path_spec.h"
#include "apps/cli/shell_quote.h"
#include "apps/cli/suggest.h"
#include "apps/cli/target.h"

namespace atl::cli {
namespace {

using std::chrono::seconds;

TEST(ParseIdle, KnowsOffAndNothing) {
  EXPECT_FALSE(parse_idle("")->has_value());
  EXPECT_EQ((*parse_idle("off"))->count(), 0);
  EXPECT_EQ((*parse_idle("10m"))->count(), 600);
  EXPECT_FALSE(parse_idle("0").ok());
  EXPECT_FALSE(parse_idle("soon").ok());
}

TEST(ParseDuration, TakesUnitsAndPlainSeconds) {
  EXPECT_EQ(parse_duration("90").value(), seconds(90));
  EXPECT_EQ(parse_duration("90s").value(), seconds(90));
  EXPECT_EQ(parse_duration("5m").value(), seconds(300));
  EXPECT_EQ(parse_duration("2h").value(), seconds(7200));
  EXPECT_EQ(parse_duration("30d").value(), seconds(30 * 86400));
}

TEST(ParseDuration, RefusesWhatIsNotOne) {
  for (const char* text : {"", "s", "-1", "1.5h", "5 m", "5x", "31d", "99999999999", "+3", "0x10"}) {
    EXPECT_FALSE(parse_duration(text).ok()) << text;
  }
}

TEST(ParseSize, TakesPowersOf1024) {
  EXPECT_EQ(parse_size("512").value(), 512u);
  EXPECT_EQ(parse_size("2k").value(), 2048u);
  EXPECT_EQ(parse_size("3MiB").value(), 3u << 20);
  EXPECT_EQ(parse_size("1G").value(), 1u << 30);
}

TEST(ParseSize, RefusesOverflowAndNonsense) {
  for (const char* text : {"", "G", "1.5G", "-1", "99999999999999999999", "20000000000T", "1X"}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
}

TEST(ParseEnv, TakesPairsAndPassesOnOurOwn) {
  ::setenv("ATOLL_TEST_PASSED", "from shell", 1);
  auto env = parse_env({"A=1", "B=x=y", "EMPTY=", "ATOLL_TEST_PASSED"});
  ASSERT_TRUE(env.ok());
  EXPECT_EQ(env->at("A"), "1");
  EXPECT_EQ(env->at("B"), "x=y");
  EXPECT_EQ(env->at("EMPTY"), "");
  EXPECT_EQ(env->at("ATOLL_TEST_PASSED"), "from shell");
}

TEST(ParseEnv, RefusesBadNamesAndUnknownVariables) {
  for (const char* item : {"=x", "1A=x", "A-B=x", "", "ATOLL_TEST_NOT_THERE"}) {
    EXPECT_FALSE(parse_env({item}).ok()) << item;
  }
}

TEST(FormatBytes, ShowsThreeDigitsAtMost) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(10u << 20), "10 MiB");
  EXPECT_EQ(format_bytes((1u << 20) - 1), "1.0 MiB");
}

TEST(FormatCount, UsesThePlural) {
  EXPECT_EQ(format_count(0, "check"), "0 checks");
  EXPECT_EQ(format_count(1, "sandbox"), "1 sandbox");
  EXPECT_EQ(format_count(2, "sandbox"), "2 sandboxes");
}

TEST(FormatDuration, ShowsTwoUnits) {
  EXPECT_EQ(format_duration(seconds(45)), "45s");
  EXPECT_EQ(format_duration(seconds(300)), "5m");
  EXPECT_EQ(format_duration(seconds(7500)), "2h 5m");
  EXPECT_EQ(format_duration(seconds(-3)), "0s");
}

constexpr char kId[] = "iabcdefghij0123456789";

TEST(PathSpec, TellsSandboxFromLocal) {
  using Kind = PathSpec::Kind;
  std::string id(kId);
  EXPECT_EQ(parse_path_spec(id + ":/etc/x").value(), (PathSpec{Kind::kSandbox, id, "/etc/x"}));
  EXPECT_EQ(parse_path_spec(id + ":a:b").value(), (PathSpec{Kind::kSandbox, id, "a:b"}));
  EXPECT_EQ(parse_path_spec(id + ":").value(), (PathSpec{Kind::kSandbox, id, "~"}));
  EXPECT_EQ(parse_path_spec("./a:b").value(), (PathSpec{Kind::kLocal, "", "./a:b"}));
  EXPECT_EQ(parse_path_spec("/a:b").value(), (PathSpec{Kind::kLocal, "", "/a:b"}));
  EXPECT_EQ(parse_path_spec(id).value(), (PathSpec{Kind::kLocal, "", id}));
  EXPECT_EQ(parse_path_spec("-").value().kind, Kind::kStdio);
}

TEST(PathSpec, RefusesWhatIsNoIdBeforeTheColon) {
  EXPECT_FALSE(parse_path_spec("").ok());
  EXPECT_FALSE(parse_path_spec("host:/x").ok());
  EXPECT_FALSE(parse_path_spec(":x").ok());
  EXPECT_FALSE(parse_path_spec(std::string_view("a\0b", 3)).ok());
}

TEST(SafeRelativePath, RefusesEveryWayOut) {
  EXPECT_TRUE(safe_relative_path("a"));
  EXPECT_TRUE(safe_relative_path("a/..b/c..."));
  for (const char* path : {"", "/a", "..", "a/..", "a/../b", "./a", "a//b", "a/", "."}) {
    EXPECT_FALSE(safe_relative_path(path)) << path;
  }
  EXPECT_FALSE(safe_relative_path(std::string_view("a\0b", 3)));
}

TEST(BaseName, IgnoresSlashesAtTheEnd) {
  EXPECT_EQ(base_name("x/a"), "a");
  EXPECT_EQ(base_name("x/a//"), "a");
  EXPECT_EQ(base_name("a"), "a");
  EXPECT_EQ(base_name(".."), "");
  EXPECT_EQ(base_name("/"), "");
}

TEST(ShellQuote, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_quote("http://127.0.0.1:7400"), "http://127.0.0.1:7400");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(shell_quote("~"), "'~'");
  EXPECT_EQ(shell_join({"echo", "a b", "c"}), "echo 'a b' c");
}

TEST(Suggest, FindsTheNearWordOnly) {
  std::vector<std::string> words{"status", "create", "doctor", "template"};
  EXPECT_EQ(suggest("statsu", words), "status");
  EXPECT_EQ(suggest("crate", words), "create");
  EXPECT_EQ(suggest("temp", words), "template");
  EXPECT_EQ(suggest("banana", words), "");
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

TEST(ParseUrl, SplitsHostAndPort) {
  auto url = parse_url("http://127.0.0.1:7400/base/");
  ASSERT_TRUE(url.ok());
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(url->host, "127.0.0.1");
  EXPECT_EQ(url->port, 7400);
  EXPECT_EQ(url->path, "/base");
  EXPECT_EQ(parse_url("https://a.test")->port, 443);
  EXPECT_EQ(parse_url("http://[::1]:80")->host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:7400")->authority(), "[::1]:7400");
}

TEST(ParseUrl, RefusesWhatItCannotUse) {
  for (const char* text : {"", "ftp://x", "http://", "http://a:0", "http://a:99999", "http://u@h",
                           "http://h?q", "http://[::1"}) {
    EXPECT_FALSE(parse_url(text).ok()) << text;
  }
}

TEST(SandboxUrl, HasANameOfItsOwnWhereTheApiHasOne) {
  EXPECT_EQ(sandbox_url_of(*parse_url("http://127.0.0.1:7400")).host, "127.0.0.1");
  EXPECT_EQ(sandbox_url_of(*parse_url("https://[::1]:7400")).host, "::1");
  EXPECT_EQ(sandbox_url_of(*parse_url("http://localhost:7400")).host, "localhost");
  Url named = sandbox_url_of(*parse_url("https://atoll.localhost:7400"));
  EXPECT_EQ(named.authority(), "sandbox.atoll.localhost:7400");
}

TEST(Credentials, SurviveARoundTrip) {
  Credentials credentials;
  credentials.current = "atoll";
  credentials.instances["atoll"].api_key = Secret("e2b_00ff");
  credentials.instances["atoll"].domain = "atoll.localhost:7400";
  auto again = parse_credentials(credentials_json(credentials));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->current, "atoll");
  EXPECT_EQ(again->instances.at("atoll").api_key.reveal(), "e2b_00ff");
  EXPECT_EQ(again->instances.at("atoll").domain, "atoll.localhost:7400");
  EXPECT_FALSE(parse_credentials("{}").ok());
  EXPECT_FALSE(parse_credentials("{\"instances\":{\"a\":1}}").ok());
}

}  // namespace
}  // namespace atl::cli
