// SPDX-License-Identifier: Apache-2.0
//
// Real processes, started through the API.
#include <sys/syscall.h>

#include <csignal>

#include "base/text.h"
#include "guest/guest_test_util.h"

namespace atl::guest {
namespace {

constexpr char kStart[] = "/process.Process/Start";
constexpr char kConnect[] = "/process.Process/Connect";

// What a stream of process events said.
struct Told {
  std::int64_t pid = 0;
  std::string out, err, pty;
  json::object end;
  json::object error;
  std::vector<std::uint64_t> offsets;
  std::vector<std::pair<std::string, std::string>> gaps;
};

class GuestProcess : public GuestFixture {
 protected:
  static void take(Told& told, const json::object& message) {
    if (auto* error = message.if_contains("error")) told.error = error->as_object();
    auto* event = message.if_contains("event");
    if (event == nullptr) return;
    const json::object& inner = event->as_object();
    if (auto* start = inner.if_contains("start")) told.pid = start->at("pid").as_int64();
    if (auto* end = inner.if_contains("end")) told.end = end->as_object();
    if (auto* gap = inner.if_contains("gap"))
      told.gaps.emplace_back(text(gap->as_object(), "from"), text(gap->as_object(), "to"));
    if (auto* data = inner.if_contains("data")) {
      const json::object& piece = data->as_object();
      told.out += *base64_decode(text(piece, "stdout"));
      told.err += *base64_decode(text(piece, "stderr"));
      told.pty += *base64_decode(text(piece, "pty"));
      if (piece.contains("offset")) told.offsets.push_back(std::stoull(text(piece, "offset")));
    }
  }

  Told run(const std::string& message, http::Headers headers = {}, const char* target = kStart) {
    Told told;
    for (const json::object& each : stream(target, message, std::move(headers))) take(told, each);
    return told;
  }
  Told shell(const std::string& script, http::Headers headers = {}) {
    json::object message{{"process", {{"cmd", "/bin/sh"}, {"args", {"-c", script}}}}, {"stdin", false}};
    return run(json::serialize(message), std::move(headers));
  }
  // Starts a shell script and reads its start event; the stream stays open.
  std::int64_t begin(LiveStream& live) {
    Told told;
    take(told, await(live.next()));
    return told.pid;
  }
  Told finish(LiveStream& live) {
    Told told;
    for (;;) {
      json::object message = await(live.next());
      if (message.empty()) return told;
      take(told, message);
    }
  }
  static std::string script_message(const std::string& script, bool with_stdin = false) {
    return json::serialize(
        json::object{{"process", {{"cmd", "/bin/sh"}, {"args", {"-c", script}}}}, {"stdin", with_stdin}});
  }
  static std::string select(std::int64_t pid, const std::string& more = "") {
    return fmt::format(R"({{"process":{{"pid":{}}}{}}})", pid, more);
  }
};

// A script of python3: what sockets it can make, and which of the calls in its arguments are refused with
// EACCES, which none of them says by itself to such arguments.
constexpr char kSockets[] = R"py(
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def tries(what):
    try: what(); return 'made'
    except OSError as e: return e.strerror
print(tries(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)))
print(tries(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
print(tries(lambda: socket.socket(socket.AF_UNIX)))
print(tries(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)))
print(tries(lambda: socket.socketpair()))
print(os.system("python3 -c 'import socket; socket.socket()' 2>/dev/null") != 0)
refused = lambda n: libc.syscall(n, -1, -1, -1, -1, -1, -1) == -1 and ctypes.get_errno() == 13
print(sum(refused(int(n)) for n in sys.argv[1:]))
)py";

TEST_F(GuestProcess, ACommandWithoutNetworkMakesNoSocketNorDoesAnythingItStarts) {
  auto message = [](const char* word) {
    json::array arguments{"-c", kSockets};
    for (int call : {SYS_io_uring_setup, SYS_ptrace, SYS_process_vm_writev, SYS_pidfd_getfd})
      arguments.emplace_back(std::to_string(call));
    json::object process{{"cmd", "python3"}, {"args", arguments}};
    if (word != nullptr) process["envs"] = {{"ATOLL_NETWORK", word}};
    return json::serialize(json::object{{"process", process}, {"stdin", false}});
  };
  Told told = run(message("none"));
  const std::string no = "Permission denied\n";
  EXPECT_EQ(told.out, no + no + no + no + "made\nTrue\n4\n") << told.err;
  told = run(message(nullptr));
  EXPECT_EQ(told.out, "made\nmade\nmade\nmade\nmade\nFalse\n0\n") << told.err;
  told = run(message("some"));
  EXPECT_EQ(text(told.error, "code"), "invalid_argument");
  EXPECT_EQ(told.pid, 0);
}

TEST_F(GuestProcess, TellsStartOutputAndEnd) {
  Told told = shell("echo out; echo err >&2; exit 3");
  EXPECT_GT(told.pid, 0);
  EXPECT_EQ(told.out, "out\n");
  EXPECT_EQ(told.err, "err\n");
  EXPECT_EQ(json::serialize(told.end),
            R"({"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3",)"
            R"("outcome":{"kind":"exited"}})");
  EXPECT_TRUE(told.error.empty());
}

TEST_F(GuestProcess, SuccessLeavesDefaultsOut) {
  EXPECT_EQ(json::serialize(shell("true").end),
            R"({"exited":true,"status":"exit status 0","outcome":{"kind":"exited"}})");
}

TEST_F(GuestProcess, ASignalIsToldInGosWords) {
  Told told = shell("kill -9 $$");
  EXPECT_EQ(told.end.at("exitCode").as_int64(), -1);
  EXPECT_EQ(text(told.end, "status"), "signal: killed");
  EXPECT_FALSE(told.end.contains("exited"));
  EXPECT_EQ(json::serialize(told.end.at("outcome")), R"({"kind":"signalled","signal":9})");
}

TEST_F(GuestProcess, ADeadlineKillsTheWholeSessionAndEndsTheStream) {
  std::string mark = path("alive");
  Told told =
      shell("(trap '' TERM; sleep 60; echo > " + mark + ") & sleep 60", {{"connect-timeout-ms", "100"}});
  EXPECT_EQ(text(told.error, "code"), "deadline_exceeded");
  EXPECT_TRUE(told.end.empty());
  std::string session = std::to_string(told.pid);
  auto members = [&] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      if (!parse_number<pid_t>(entry.path().filename().string())) continue;
      std::ifstream in(entry.path() / "stat");
      std::string stat{std::istreambuf_iterator<char>(in), {}};
      if (parse_stat_session(stat) == told.pid) ++count;
    }
    return count;
  };
  EXPECT_TRUE(eventually([&] { return members() == 0; })) << "session " << session;
}

TEST_F(GuestProcess, WhatCannotStartSaysWhy) {
  EXPECT_EQ(text(run(R"({"process":{"cmd":"/nonexistent"}})").error, "message"),
            "start '/nonexistent': no such command");
  Told cwd = run(R"({"process":{"cmd":"true","cwd":"/nope"}})");
  EXPECT_EQ(text(cwd.error, "code"), "invalid_argument");
  EXPECT_EQ(text(cwd.error, "message"), "cwd '/nope' does not exist");
  Told user = run(R"({"process":{"cmd":"true"}})", {{"authorization", basic("nosuchuser")}});
  EXPECT_EQ(text(user.error, "code"), "unauthenticated");
  EXPECT_EQ(text(user.error, "message"), "invalid username: 'nosuchuser'");
  EXPECT_EQ(text(run(R"({"process":{"cmd":"/etc/passwd"}})").error, "code"), "permission_denied");
}

TEST_F(GuestProcess, EndIsToldThoughAChildHoldsTheOutputOpen) {
  auto before = Steady::now();
  Told told = shell("echo first; sleep 60 & echo last");
  EXPECT_EQ(told.out, "first\nlast\n");
  EXPECT_EQ(text(told.end, "status"), "exit status 0");
  EXPECT_LT(Steady::now() - before, std::chrono::seconds(30));
}

TEST_F(GuestProcess, OutputIsWholeHoweverLarge) {
  Told told = shell("head -c 5000000 /dev/zero | tr '\\0' x; exit 1");
  EXPECT_EQ(told.out.size(), 5'000'000u);
  EXPECT_EQ(told.end.at("exitCode").as_int64(), 1);
}

TEST_F(GuestProcess, StdinIsAPipeUntilItIsClosed) {
  LiveStream live(client_, kStart, R"({"process":{"cmd":"cat"}})");
  std::int64_t pid = begin(live);
  EXPECT_EQ(rpc("/process.Process/SendInput", select(pid, R"(,"input":{"stdin":"YWJj"})")).head.status, 200);
  EXPECT_EQ(rpc("/process.Process/SendInput", select(pid)).head.status, 200) << "an empty message is legal";
  EXPECT_EQ(rpc("/process.Process/SendInput", select(pid, R"(,"input":{"pty":"YWJj"})")).head.status, 400);
  EXPECT_EQ(rpc("/process.Process/CloseStdin", select(pid)).head.status, 200);
  EXPECT_EQ(finish(live).out, "abc");
}

// A client whose connection broke sends again what was not answered: nothing is doubled, and a hole is
// refused.
TEST_F(GuestProcess, InputWithAnOffsetIsTakenOnce) {
  LiveStream live(client_, kStart, R"({"process":{"cmd":"cat"}})");
  std::int64_t pid = begin(live);
  auto send = [&](const char* rest) {
    return rpc("/process.Process/SendInput", select(pid, rest)).head.status;
  };
  EXPECT_EQ(send(R"(,"input":{"stdin":"YWJj"},"inputOffset":0)"), 200);
  EXPECT_EQ(send(R"(,"input":{"stdin":"YWJj"},"inputOffset":"0")"), 200);
  EXPECT_EQ(send(R"(,"input":{"stdin":"YmNk"},"inputOffset":1)"), 200) << "bcd: only d is new";
  EXPECT_EQ(send(R"(,"input":{"stdin":"eA=="},"inputOffset":9)"), 400);
  EXPECT_EQ(rpc("/process.Process/CloseStdin", select(pid)).head.status, 200);
  EXPECT_EQ(finish(live).out, "abcd");
}

TEST_F(GuestProcess, AStreamOfInputGoesToOneProcess) {
  LiveStream live(client_, kStart, R"({"process":{"cmd":"head","args":["-n","2"]}})");
  std::int64_t pid = begin(live);
  std::string body = frame(fmt::format(R"({{"start":{{"process":{{"pid":{}}}}}}})", pid)) +
                     frame(R"({"data":{"input":{"stdin":"YQo="}}})") + frame(R"({"keepalive":{}})") +
                     frame(R"({"data":{"input":{"stdin":"Ygo="}}})");
  auto answer =
      call("POST", "/process.Process/StreamInput", {{"content-type", "application/connect+json"}}, body);
  EXPECT_EQ(answer.body, frame("{}") + http::connect::end_stream(nullptr));
  EXPECT_EQ(finish(live).out, "a\nb\n");
}

TEST_F(GuestProcess, KillSaysKilledAndThenThePidIsUnknown) {
  LiveStream live(client_, kStart, script_message("sleep 60 & sleep 60"));
  std::int64_t pid = begin(live);
  EXPECT_NE(rpc("/process.Process/List", "{}").body.find(fmt::format("\"pid\":{}", pid)), std::string::npos);
  EXPECT_EQ(rpc("/process.Process/SendSignal", select(pid, R"(,"signal":"SIGNAL_SIGKILL")")).head.status,
            200);
  EXPECT_EQ(json::serialize(finish(live).end.at("outcome")), R"({"kind":"killed","signal":9})");
  auto again = rpc("/process.Process/SendSignal", select(pid, R"(,"signal":"SIGNAL_SIGKILL")"));
  EXPECT_EQ(again.head.status, 404);
  EXPECT_EQ(again.body,
            fmt::format(R"({{"code":"not_found","message":"process with pid {} not found"}})", pid));
  EXPECT_EQ(rpc("/process.Process/List", "{}").body, R"({"processes":[]})");
}

TEST_F(GuestProcess, ALateReaderGetsOutputAndEnd) {
  Told first = shell("echo late; exit 4");
  Told late = run(select(first.pid), {}, kConnect);
  EXPECT_EQ(late.out, "late\n");
  EXPECT_EQ(late.end.at("exitCode").as_int64(), 4);
}

TEST_F(GuestProcess, AReaderContinuesFromAnOffset) {
  LiveStream live(client_, kStart, script_message("printf 0123456789; read line; printf abc", true));
  std::int64_t pid = begin(live);
  ASSERT_FALSE(await(live.next()).empty());
  live.drop();  // the client is gone; the process goes on
  LiveStream again(client_, kConnect, select(pid, R"(,"fromOffset":"4")"));
  EXPECT_EQ(begin(again), pid);
  EXPECT_EQ(rpc("/process.Process/SendInput", select(pid, R"(,"input":{"stdin":"Cg=="})")).head.status, 200);
  Told told = finish(again);
  EXPECT_EQ(told.out, "456789abc");
  EXPECT_EQ(told.offsets.front(), 4u);
  EXPECT_TRUE(told.gaps.empty());
}

TEST_F(GuestProcess, LostOutputIsToldAsAGap) {
  LiveStream live(client_, kStart, script_message("read line; head -c 3000000 /dev/zero; echo end", true));
  std::int64_t pid = begin(live);
  live.drop();
  EXPECT_EQ(rpc("/process.Process/SendInput", select(pid, R"(,"input":{"stdin":"Cg=="})")).head.status, 200);
  ASSERT_TRUE(eventually([&] {
    auto process = server_->guest().processes.find(static_cast<pid_t>(pid));
    return process && process->outcome();
  }));
  Told told = run(select(pid, R"(,"fromOffset":"0")"), {}, kConnect);
  ASSERT_EQ(told.gaps.size(), 1u);
  EXPECT_EQ(told.gaps[0].first, "0");
  EXPECT_EQ(std::stoull(told.gaps[0].second) + told.out.size(), 3'000'004u);
  EXPECT_EQ(told.offsets.front(), std::stoull(told.gaps[0].second));
}

TEST_F(GuestProcess, SeveralReadersGetEverything) {
  LiveStream live(client_, kStart, script_message("read line; head -c 2000000 /dev/zero", true));
  std::int64_t pid = begin(live);
  LiveStream second(client_, kConnect, select(pid));
  EXPECT_EQ(begin(second), pid);
  EXPECT_EQ(rpc("/process.Process/SendInput", select(pid, R"(,"input":{"stdin":"Cg=="})")).head.status, 200);
  std::size_t sizes[2] = {};
  LiveStream* streams[2] = {&live, &second};
  bool open[2] = {true, true};
  while (open[0] || open[1]) {
    for (int i = 0; i < 2; ++i) {
      if (!open[i]) continue;
      json::object message = await(streams[i]->next());
      Told told;
      take(told, message);
      sizes[i] += told.out.size();
      open[i] = !message.empty();
    }
  }
  EXPECT_EQ(sizes[0], 2'000'000u);
  EXPECT_EQ(sizes[1], 2'000'000u);
}

TEST_F(GuestProcess, AReaderThatStandsStillIsCutOffAndTheProcessGoesOn) {
  std::string done = path("done");
  LiveStream live(client_, kStart, script_message("head -c 30000000 /dev/zero; echo > " + done));
  begin(live);  // and then nothing is read: socket buffers and ring fill up
  EXPECT_TRUE(eventually([&] { return fs::exists(done); }));
  Told told = finish(live);
  EXPECT_EQ(text(told.error, "code"), "resource_exhausted");
  EXPECT_THAT(text(told.error, "message"),
              ::testing::HasSubstr(fmt::format("fromOffset {}", told.out.size())));
  EXPECT_TRUE(told.end.empty());
}

TEST_F(GuestProcess, AReaderIsNotBlamedForASilentProcess) {
  Told told = shell("sleep 0.5; head -c 3000000 /dev/zero");  // longer silent than a reader may stand still
  EXPECT_EQ(told.out.size(), 3'000'000u);
  EXPECT_TRUE(told.error.empty()) << json::serialize(told.error);
}

TEST_F(GuestProcess, ManyAtOnceAreAllWhole) {
  std::vector<std::unique_ptr<LiveStream>> all;
  for (std::size_t i = 0; i < 2 * kMaxRetained; ++i) {
    std::string script = "read line; head -c 100000 /dev/zero; exit 7";
    all.push_back(std::make_unique<LiveStream>(client_, kStart, script_message(script, true)));
    std::int64_t pid = begin(*all.back());
    ASSERT_GT(pid, 0);
    rpc("/process.Process/CloseStdin", select(pid));
  }
  for (auto& live : all) {
    Told told = finish(*live);
    EXPECT_EQ(told.out.size(), 100'000u);
    EXPECT_EQ(text(told.end, "status"), "exit status 7");
  }
}

TEST_F(GuestProcess, ATagFindsItsProcess) {
  LiveStream live(client_, kStart, R"({"process":{"cmd":"cat"},"tag":"mine"})");
  std::int64_t pid = begin(live);
  LiveStream second(client_, kConnect, R"({"process":{"tag":"mine"}})");
  EXPECT_EQ(begin(second), pid);
  EXPECT_EQ(rpc("/process.Process/CloseStdin", R"({"process":{"tag":"mine"}})").head.status, 200);
  EXPECT_EQ(text(finish(second).end, "status"), "exit status 0");
  EXPECT_EQ(rpc("/process.Process/CloseStdin", R"({"process":{"tag":"other"}})").body,
            R"({"code":"not_found","message":"process with tag 'other' not found"})");
}

TEST_F(GuestProcess, ATerminalHasSizeAndResizes) {
  LiveStream live(client_, kStart,
                  R"({"process":{"cmd":"/bin/sh","args":["-c","stty size; tty; read line; stty size"]},)"
                  R"("pty":{"size":{"cols":90,"rows":31}}})");
  std::int64_t pid = begin(live);
  Told told;
  while (told.pty.find("/dev/pts") == std::string::npos) {
    json::object message = await(live.next());
    ASSERT_FALSE(message.empty()) << told.pty;
    take(told, message);
  }
  EXPECT_NE(told.pty.find("31 90"), std::string::npos);
  EXPECT_EQ(
      rpc("/process.Process/Update", select(pid, R"(,"pty":{"size":{"cols":65535,"rows":0}})")).head.status,
      200);
  EXPECT_EQ(rpc("/process.Process/CloseStdin", select(pid)).head.status, 400);
  EXPECT_EQ(rpc("/process.Process/SendInput", select(pid, R"(,"input":{"pty":"Cg=="})")).head.status, 200);
  EXPECT_NE(finish(live).pty.find("0 65535"), std::string::npos);
}

TEST_F(GuestProcess, UserGroupsAndEnvironmentAreTheUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  Told told = shell("id -u; id -g; id -G; echo $HOME $USER $LOGNAME; umask; cat /proc/self/oom_score_adj",
                    {{"authorization", basic("nobody")}});
  // nobody's home does not exist on Debian, so the default directory is refused.
  EXPECT_EQ(text(told.error, "message"), "cwd '/nonexistent' does not exist");
  told =
      run(R"({"process":{"cmd":"/bin/sh","cwd":"/","args":["-c",)"
          R"("id -u; id -G; umask; cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l"]},"stdin":false})",
          {{"authorization", basic("nobody")}});
  EXPECT_EQ(told.out, "65534\n65534\n0022\n500\n4\n") << "ls itself opens the fourth";
}

TEST_F(GuestProcess, RequestEnvironmentDoesNotStay) {
  EXPECT_EQ(
      run(R"({"process":{"cmd":"/bin/sh","args":["-c","echo [$X]"],"envs":{"X":"1"}},"stdin":false})").out,
      "[1]\n");
  EXPECT_EQ(shell("echo [$X]").out, "[]\n");
}

TEST_F(GuestProcess, SignalsArriveAsAfterAFreshStart) {
  Told told = shell("grep -E 'SigBlk|SigIgn' /proc/self/status");
  EXPECT_EQ(told.out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(GuestProcess, OrphansAreReaped) {
  Told told = shell("(sleep 0.05; exit 0) & echo $!");
  std::string orphan = "/proc/" + told.out.substr(0, told.out.find('\n'));
  EXPECT_TRUE(eventually([&] { return !fs::exists(orphan) || ::getpid() != 1; }));
  EXPECT_FALSE(fs::exists(fmt::format("/proc/{}", told.pid)));
}

TEST_F(GuestProcess, KeepalivesComeAtTheAskedInterval) {
  LiveStream live(client_, kStart, script_message("sleep 60"), {{"keepalive-ping-interval", "1"}});
  std::int64_t pid = begin(live);
  EXPECT_EQ(json::serialize(await(live.next())), R"({"event":{"keepalive":{}}})");
  rpc("/process.Process/SendSignal", select(pid, R"(,"signal":"SIGNAL_SIGTERM")"));
  EXPECT_EQ(text(finish(live).end, "status"), "signal: terminated");
}

}  // namespace
}  // namespace atl::guest
