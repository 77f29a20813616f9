// SPDX-License-Identifier: Apache-2.0
//
// The guest daemon's parsers of hostile text, one behaviour each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "guest/access.h"
#include "guest/accounts.h"
#include "guest/connections.h"
#include "guest/download.h"
#include "guest/entry.h"
#include "guest/gzip.h"
#include "guest/identity.h"
#include "guest/init.h"
#include "guest/json.h"
#include "guest/labels.h"
#include "guest/limits.h"
#include "guest/metrics.h"
#include "guest/paths.h"
#include "guest/process_request.h"
#include "guest/session.h"
#include "guest/tunnel.h"

namespace atl::guest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(Json, ReadsCamelAndSnakeCaseAndIgnoresUnknownFields) {
  auto message = parse_message(R"({"watcher_id":"a","includeEntry":true,"unknown":{"x":[1]}})");
  ASSERT_TRUE(message.ok());
  Fields fields(*message);
  EXPECT_EQ(fields.text("watcherId"), "a");
  EXPECT_TRUE(fields.boolean("includeEntry"));
  EXPECT_FALSE(fields.failure());
}

// As gVisor and Linux write it; B2044064 is 100.64.4.178, the host.
TEST(Connections, CountsWhatLeadsToTheOutside) {
  constexpr std::string_view kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 00000000:C33F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0        1\n"
      "   1: 1500FEA9:C33F B2044064:9D08 01 00000000:00000000 00:00000000 00000000     0        0        3\n"
      "   2: 0100007F:0050 0100007F:9D09 01 00000000:00000000 00:00000000 00000000     0        0        4\n"
      "   3: 1500FEA9:9D0A 08080808:01BB 01 00000000:00000000 00:00000000 00000000     0        0        5\n"
      "   4: 1500FEA9:9D0B 08080808:01BB 02 00000000:00000000 00:00000000 00000000     0        0        6\n"
      "   5: 1500FEA9:0050 B2046408:9D0C 08 00000000:00000000 00:00000000 00000000     0        0        7\n"
      "   6: 1500FEA9:9D0D 08080808:01BB 06 00000000:00000000 00:00000000 00000000     0        0        8\n"
      "   7: 00000000:9D0E 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0        9\n";
  EXPECT_EQ(outside_connections(kTable), 3u);
  constexpr std::string_view kTable6 =
      "  sl  local_address                         remote_address                        st tx_queue\n"
      "   0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:9D08 01 0:0\n"
      "   1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000200007F:9D08 01 0:0\n"
      "   2: 0000000000000000FFFF00001500FEA9:1F90 0000000000000000FFFF000008080808:9D08 01 0:0\n"
      "   3: B80D0120000000000000000001000000:1F90 B80D01200000000000000000020000FF:9D08 04 0:0\n";
  EXPECT_EQ(outside_connections(kTable6), 2u);
  EXPECT_EQ(outside_connections(""), 0u);
  EXPECT_EQ(outside_connections("1: x y 01\n2:\n   3: :: :: zz\n\n"), 1u);
}

TEST(Json, NamesThePathOfAWrongType) {
  auto message = parse_message(R"({"process":{"cmd":"x","args":["a",7]}})");
  ASSERT_TRUE(message.ok());
  Fields fields(*message);
  auto process = fields.object("process");
  ASSERT_TRUE(process);
  process->texts("args", 10);
  ASSERT_TRUE(fields.failure());
  EXPECT_THAT(fields.failure()->message(), HasSubstr("process.args[1]"));
}

TEST(Json, TakesWholeNumbersInAllFormsOfProto3) {
  auto message = parse_message(R"({"a":5,"b":"6","c":7.0,"d":7.5,"e":null})");
  ASSERT_TRUE(message.ok());
  Fields fields(*message);
  EXPECT_EQ(fields.integer("a", 0, 10), 5);
  EXPECT_EQ(fields.integer("b", 0, 10), 6);
  EXPECT_EQ(fields.integer("c", 0, 10), 7);
  EXPECT_EQ(fields.integer("e", 0, 10), std::nullopt);
  EXPECT_FALSE(fields.failure());
  EXPECT_EQ(fields.integer("d", 0, 10), std::nullopt);
  EXPECT_TRUE(fields.failure());
}

TEST(Json, RefusesWhatIsNotAnObjectAndWhatIsTooDeep) {
  EXPECT_FALSE(parse_message("[]").ok());
  EXPECT_FALSE(parse_message("{").ok());
  EXPECT_FALSE(parse_message("{\"a\":\"\xff\"}").ok());
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100; ++i) deep += "[";
  EXPECT_FALSE(parse_message(deep).ok());
  EXPECT_TRUE(parse_message("").ok());
}

TEST(Json, WritesNamesThatAreNotUtf8AsReplacementCharacters) {
  ObjectWriter out;
  out.text("name", "a\xff");
  EXPECT_EQ(std::move(out).finish(), "{\"name\":\"a\xef\xbf\xbd\"}");
}

TEST(Accounts, LeavesOutBrokenLines) {
  auto accounts = parse_passwd(
      "root:x:0:0:root:/root:/bin/bash\nbroken\n:x:1:1::/:/bin/sh\nbig:x:4294967295:1::/:/bin/sh\n"
      "neg:x:-1:1::/:/bin/sh\nuser:x:1000:1000::/home/user:/bin/bash\nodd:x:7:7::relative:\n");
  ASSERT_THAT(accounts, SizeIs(3));
  EXPECT_EQ(accounts[1].name, "user");
  EXPECT_EQ(accounts[2].home, "/");
  EXPECT_EQ(accounts[2].shell, "/bin/sh");
}

TEST(Accounts, FindsSupplementaryGroupsAndNames) {
  Accounts accounts(parse_passwd("user:x:1000:1000::/home/user:/bin/bash"),
                    parse_group("user:x:1000:\nsudo:x:27:user,other\nx:x:bad:user\n"));
  auto user = accounts.find("user");
  ASSERT_TRUE(user);
  EXPECT_THAT(user->identity.groups, ElementsAre(1000, 27));
  EXPECT_EQ(accounts.user_name(1000), "user");
  EXPECT_EQ(accounts.user_name(4711), "4711");
  EXPECT_EQ(accounts.group_name(27), "sudo");
  EXPECT_TRUE(accounts.find("root")) << "root exists whatever the file says";
  EXPECT_FALSE(accounts.find(""));
}

TEST(Identity, NumbersOutsideOfTheMapAreNotUsable) {
  EXPECT_TRUE(number_is_mapped("         0 1879048192      65536\n", 65535));
  EXPECT_FALSE(number_is_mapped("         0 1879048192      65536\n", 65536));
  EXPECT_TRUE(number_is_mapped("", 7)) << "without a map, every number exists";
}

TEST(Paths, AreNormalisedOnce) {
  struct Row {
    const char *given, *normal;
  };
  const Row rows[] = {{"", "/work"},
                      {"~", "/home/u"},
                      {"~/a", "/home/u/a"},
                      {"a//b/./c", "/home/u/a/b/c"},
                      {"/a/../../b", "/b"},
                      {"/", "/"},
                      {"/..", "/"},
                      {"/a/", "/a"},
                      {"/a b\\c ", "/a b\\c "},
                      {"/\xc3\xbc.", "/\xc3\xbc."}};
  for (const Row& row : rows) {
    auto path = normal_path(row.given, "/home/u", "/work");
    ASSERT_TRUE(path.ok()) << row.given;
    EXPECT_EQ(*path, row.normal) << row.given;
  }
  EXPECT_EQ(*normal_path("", "/home/u", ""), "/home/u");
}

TEST(Paths, RefuseWhatNoFileCanBeCalled) {
  const std::string bad[] = {std::string("/a\0b", 4),
                             "/a\xff",
                             "/\xc0\xaf",
                             "~root/x",
                             "/" + std::string(256, 'x'),
                             std::string(5000, 'x'),
                             [] {
                               std::string long_path;
                               while (long_path.size() < 4097) long_path += "/abcdefgh";
                               return long_path;
                             }()};
  for (const std::string& path : bad)
    EXPECT_FALSE(normal_path(path, "/home/u", "").ok()) << path.substr(0, 20);
}

TEST(Access, SignsAsThePublishedVectorSays) {
  Secret token("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0");
  EXPECT_EQ(file_signature("hello.txt", "read", "user", token, std::nullopt),
            "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

TEST(Access, ChecksSignatureBeforeExpiry) {
  Secret token("secret");
  http::Headers none;
  auto check = [&](std::string_view operation, std::string expiration, std::int64_t now,
                   std::string_view signed_for) {
    Query query{{"path", "a"},
                {"signature", file_signature("a", signed_for, "", token, expiration)},
                {"signature_expiration", expiration}};
    return check_file_access(none, query, operation, token, now);
  };
  EXPECT_TRUE(check("read", "100", 100, "read").ok());
  EXPECT_EQ(check("read", "100", 101, "read").error().message(), "signature is already expired");
  EXPECT_EQ(check("read", "-5", 1, "read").error().message(), "signature is already expired");
  EXPECT_EQ(check("write", "100", 1, "read").error().message(), "invalid signature");
  EXPECT_EQ(check_file_access(none, {{"path", "a"}}, "read", token, 1).error().message(),
            "missing signature query parameter");
  EXPECT_TRUE(check_file_access({{"x-access-token", "secret"}}, {}, "read", token, 1).ok());
  EXPECT_FALSE(check_file_access({{"x-access-token", "wrong"}}, {}, "read", token, 1).ok());
}

TEST(Access, InternalTokenIsNeverEmptyAndNeverDoubled) {
  EXPECT_FALSE(is_internal({{"x-atoll-internal", ""}}, ""));
  EXPECT_FALSE(is_internal({{"x-atoll-internal", "ab"}, {"x-atoll-internal", "ab"}}, "ab"));
  EXPECT_TRUE(is_internal({{"x-atoll-internal", "ab"}}, "ab"));
}

TEST(Download, ChoosesRanges) {
  auto part = [](std::string_view value, std::uint64_t size) { return choose_range(value, size); };
  EXPECT_EQ(part("bytes=0-3", 10).range.length, 4u);
  EXPECT_EQ(part("bytes=5-", 10).range.first, 5u);
  EXPECT_EQ(part("bytes=-3", 10).range.first, 7u);
  EXPECT_EQ(part("bytes=-30", 10).range.length, 10u);
  EXPECT_EQ(part("bytes=2-99", 10).range.length, 8u);
  EXPECT_EQ(part("bytes=10-", 10).kind, RangeKind::kUnsatisfiable);
  EXPECT_EQ(part("bytes=-0", 10).kind, RangeKind::kUnsatisfiable);
  EXPECT_EQ(part("bytes=0-0", 0).kind, RangeKind::kUnsatisfiable);
  for (const char* whole :
       {"bytes=3-1", "bytes=a-b", "lines=0-1", "bytes=0-1,3-4", "bytes=-", "bytes=0-18446744073709551616"})
    EXPECT_EQ(part(whole, 10).kind, RangeKind::kWhole) << whole;
}

TEST(Download, ChoosesAnEncoding) {
  auto choose = [](const char* value) { return choose_encoding({{"accept-encoding", value}}); };
  EXPECT_EQ(choose_encoding({}), Encoding::kIdentity);
  EXPECT_EQ(choose("gzip, deflate"), Encoding::kGzip);
  EXPECT_EQ(choose("GZIP;q=0.5"), Encoding::kGzip);
  EXPECT_EQ(choose("br"), Encoding::kIdentity);
  EXPECT_EQ(choose("gzip;q=0"), Encoding::kIdentity);
  EXPECT_EQ(choose("identity;q=0, br"), Encoding::kNone);
  EXPECT_EQ(choose("*;q=0"), Encoding::kNone);
  EXPECT_EQ(choose("identity;q=0, *"), Encoding::kGzip);
  EXPECT_EQ(choose("identity, gzip;q=0.2"), Encoding::kIdentity);
}

TEST(Download, NamesFilesInHeadersSafely) {
  EXPECT_EQ(content_disposition("a.txt"), "inline; filename=\"a.txt\"");
  EXPECT_EQ(content_disposition("a\"b"), "inline; filename=\"a\\\"b\"");
  EXPECT_EQ(content_disposition("\xc3\xbc\r\n"), "inline; filename*=utf-8''%C3%BC%0D%0A");
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(Gzip, RoundTripsAndRefusesGarbage) {
  std::string text(300'000, 'x'), packed;
  Deflater deflater;
  deflater.run(text, Deflater::Last::kNo, packed);
  deflater.run("end", Deflater::Last::kYes, packed);
  std::string twice = packed + packed;  // two members in a row are legal
  std::string_view input = twice;
  Inflater inflater;
  std::string out(1'000'000, '\0');
  auto got = inflater.run(input, out);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(*got, 2 * (text.size() + 3));
  EXPECT_TRUE(inflater.complete());
  std::string_view garbage = "not gzip at all";
  EXPECT_FALSE(Inflater().run(garbage, out).ok());
  std::string_view cut = std::string_view(packed).substr(0, packed.size() - 1);
  Inflater half;
  ASSERT_TRUE(half.run(cut, out).ok());
  EXPECT_FALSE(half.complete());
}

TEST(Entry, WritesModesAsGoDoes) {
  EXPECT_EQ(go_mode_text(S_IFREG | 0644), "-rw-r--r--");
  EXPECT_EQ(go_mode_text(S_IFDIR | 0755), "drwxr-xr-x");
  EXPECT_EQ(go_mode_text(S_IFDIR | 01777), "dtrwxrwxrwx");
  EXPECT_EQ(go_mode_text(S_IFLNK | 0777), "Lrwxrwxrwx");
  EXPECT_EQ(go_mode_text(S_IFREG | 04755), "urwxr-xr-x");
  EXPECT_EQ(go_mode_text(S_IFCHR | 0666), "Dcrw-rw-rw-");
  EXPECT_EQ(go_mode_text(S_IFIFO | 0600), "prw-------");
}

TEST(Entry, SurvivesTimesThatNoCalendarHas) {
  EXPECT_EQ(timestamp_text({1'700'000'000, 5}), "2023-11-14T22:13:20.000000005Z");
  EXPECT_EQ(timestamp_text({0, 0}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(timestamp_text({INT64_MAX, 0}), std::nullopt);
  EXPECT_EQ(timestamp_text({INT64_MIN, 0}), std::nullopt);
}

TEST(Session, ReadsStatWhateverTheProgramIsCalled) {
  EXPECT_EQ(parse_stat_session("12 (a) b) S 1 12 77 0"), 77);
  EXPECT_EQ(parse_stat_session("12 (x) S 1"), std::nullopt);
  EXPECT_EQ(parse_stat_session("nonsense"), std::nullopt);
}

TEST(Metrics, ReadsCountersOfBothCgroupVersions) {
  EXPECT_EQ(parse_cpu_usage("123456\n"), 123456u);
  EXPECT_EQ(parse_cpu_usage("usage_usec 7\nuser_usec 3\n"), 7000u);
  EXPECT_EQ(parse_cpu_usage(""), std::nullopt);
  EXPECT_EQ(parse_memory_cache("anon 1\nfile 42\n"), 42u);
  EXPECT_EQ(parse_memory_cache("cache 1\ntotal_cache 9\n"), 9u);
  EXPECT_EQ(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3u);
  EXPECT_EQ(parse_oom_kills("low 0\noom_kill 2\noom_group_kill 9\n"), 2u);
}

TEST(Init, ReadsEverythingAndChecksIt) {
  std::string random = base64_encode(std::string(32, 'r'));
  auto init =
      parse_init(R"({"sandboxId":"i1","templateId":"t","teamId":"m","envs":{"A":"b"},"accessToken":"tok",
    "defaultUser":"user","workdir":"/w","timestampMs":"1700000000000","generation":3,"random":")" +
                 random + "\"}");
  ASSERT_TRUE(init.ok()) << init.error().message();
  EXPECT_EQ(init->settings.generation, 3);
  EXPECT_EQ(init->settings.environment.at("A"), "b");
  EXPECT_EQ(init->random.size(), 32u);
  EXPECT_FALSE(parse_init(R"({"random":"AAAA"})").ok());
  EXPECT_FALSE(parse_init(R"({"workdir":"relative"})").ok());
  EXPECT_FALSE(parse_init(R"({"envs":{"A=B":"x"}})").ok());
  auto given = parse_init(R"({"gateway":{"token":"t","envs":{"KEY":"v"}}})");
  ASSERT_TRUE(given.ok()) << given.error().message();
  EXPECT_EQ(given->gateway_token, "t");
  EXPECT_EQ(given->gateway_environment.at("KEY"), "v");
  EXPECT_FALSE(parse_init(R"({"gateway":{"token":"t","envs":{"A=B":"x"}}})").ok());
}

TEST(Labels, AreNumberedAsTheyWereTold) {
  auto init = parse_init(R"({"labels":["npm","git"]})");
  ASSERT_TRUE(init.ok()) << init.error().message();
  const Settings& settings = init->settings;
  model::GuestBoot boot{};
  boot.cgroup_fd = 9;
  const std::map<std::string, std::string> none, variable{{"ATOLL_LABEL", "git"}}, empty{{"ATOLL_LABEL", ""}};
  auto chosen = [&](const std::string& asked, const std::map<std::string, std::string>& environment,
                    LabelRight right = LabelRight::kYes) {
    auto label = choose_label(settings, boot, asked, environment, right);
    return label.ok() ? std::to_string(*label) : std::string(label.error().word());
  };
  EXPECT_EQ(chosen("", none), "0");
  EXPECT_EQ(chosen("", none, LabelRight::kNo), "0");
  EXPECT_EQ(chosen("npm", none), "1");
  EXPECT_EQ(chosen("", variable), "2");
  EXPECT_EQ(chosen("npm", variable), "1");
  EXPECT_EQ(chosen("other", none), "label_unknown");
  EXPECT_EQ(chosen("", empty), "label_unknown");
  EXPECT_EQ(chosen("npm", none, LabelRight::kNo), "label_refused");
  boot.cgroup_fd = -1;
  EXPECT_EQ(chosen("npm", none), "label_unsupported");
  EXPECT_EQ(chosen("", empty), "label_unsupported");
  EXPECT_EQ(chosen("", none), "0");
}

TEST(Labels, AreForClientsOutside) {
  http::RequestHead request;
  for (const char* inside :
       {"127.0.0.1:5", "127.9.9.9:5", "169.254.0.21:5", "[::1]:5", "[::ffff:127.0.0.1]:5", ""}) {
    request.peer = inside;
    EXPECT_EQ(label_right(request), LabelRight::kNo) << inside;
  }
  request.peer = "100.64.0.1:5";
  EXPECT_EQ(label_right(request), LabelRight::kYes);
}

TEST(Tunnel, GoesToLoopbackOnly) {
  EXPECT_EQ(*parse_tunnel_target("127.0.0.1:8080"), 8080);
  for (const char* bad :
       {"127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "10.0.0.1:80", ":80", "127.0.0.1:80:90"})
    EXPECT_FALSE(parse_tunnel_target(bad).ok()) << bad;
}

Result<StartRequest> start(std::string_view json) {
  auto message = parse_message(json);
  return message.ok() ? parse_start(*message) : Result<StartRequest>(message.error());
}

TEST(ProcessRequest, ReadsStart) {
  auto request = start(R"({"process":{"cmd":"/bin/bash","args":["-c","x"],"envs":{"K":"v"},"cwd":"/w"},
                           "pty":{"size":{"cols":65535,"rows":1}},"tag":"t","stdin":false})");
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(request->config.arguments.size(), 2u);
  EXPECT_EQ(request->terminal->columns, 65535);
  EXPECT_FALSE(request->stdin_open);
  EXPECT_TRUE(start(R"({"process":{"cmd":"x"}})")->stdin_open) << "unset means open";
}

TEST(ProcessRequest, RefusesWhatCannotBeExecuted) {
  for (const char* bad :
       {R"({})", R"({"process":{}})", R"({"process":{"cmd":"a\u0000b"}})",
        R"({"process":{"cmd":"a","args":["\u0000"]}})", R"({"process":{"cmd":"a","envs":{"":"x"}}})",
        R"({"process":{"cmd":"a","envs":{"A=":"x"}}})", R"({"process":{"cmd":"a","envs":{"A":1}}})",
        R"({"process":{"cmd":"a"},"pty":{"size":{"cols":65536}}})", R"({"process":"a"})"})
    EXPECT_EQ(start(bad).error().code(), Code::kInvalid) << bad;
  std::string large = R"({"process":{"cmd":"a","args":[")" + std::string(3 * kMiB, 'x') + "\"]}}";
  EXPECT_FALSE(start(large).ok());
}

TEST(ProcessRequest, SelectsByPidOrTagAndNotByBoth) {
  auto connect = [](std::string_view json) { return parse_connect(*parse_message(json)); };
  EXPECT_EQ(connect(R"({"process":{"pid":7},"fromOffset":"42"})")->from_offset, 42u);
  EXPECT_EQ(connect(R"({"process":{"tag":"t"}})")->selector.tag, "t");
  EXPECT_FALSE(connect(R"({"process":{"pid":7,"tag":"t"}})").ok());
  EXPECT_FALSE(connect(R"({"process":{}})").ok());
  EXPECT_FALSE(connect(R"({"process":{"pid":7},"fromOffset":"-1"})").ok());
}

TEST(ProcessRequest, KnowsTwoSignals) {
  auto signal = [](std::string_view value) {
    return parse_unary(*parse_message(fmt::format(R"({{"process":{{"pid":1}},"signal":{}}})", value)),
                       "SendSignal");
  };
  EXPECT_EQ(signal("\"SIGNAL_SIGKILL\"")->signal, 9);
  EXPECT_EQ(signal("\"SIGNAL_SIGINT\"")->signal, 2);
  EXPECT_EQ(signal("15")->signal, 15);
  EXPECT_FALSE(signal("\"SIGNAL_SIGSTOP\"").ok());
  EXPECT_FALSE(signal("0").ok());
}

TEST(Outcome, SpeaksGosWords) {
  EXPECT_EQ(status_text({OutcomeKind::kExited, 1, 0, false}), "exit status 1");
  EXPECT_EQ(status_text({OutcomeKind::kSignalled, -1, 9, false}), "signal: killed");
  EXPECT_EQ(status_text({OutcomeKind::kSignalled, -1, 11, true}), "signal: segmentation fault (core dumped)");
  EXPECT_EQ(status_text({OutcomeKind::kSignalled, -1, 31, false}), "signal: signal 31");
}

}  // namespace
}  // namespace atl::guest
