// SPDX-License-Identifier: Apache-2.0
//
// What a hostile client, hostile code and a hostile kernel try against the interpreter. After each of them it
// serves others as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest/interpreter/interpreter_test_util.h"
#include "guest/interpreter/run_directory.h"

namespace atl::guest::interpreter {
namespace {

using ::testing::HasSubstr;

// --- requests

TEST_F(InterpreterTest, AttackAContextsNameIsNoPath) {
  std::string id = make_context();
  for (const std::string& name : std::vector<std::string>{"", "/", "..", "../" + id, id + "/", id + "/..",
                                                          id + "/restart/restart", "%2e%2e", "*", id + "%00",
                                                          "../../../../etc/passwd", std::string(4000, 'a')}) {
    EXPECT_EQ(call("DELETE", "/contexts/" + name).head.status, 404) << name;
    if (!name.ends_with("/")) EXPECT_EQ(call("POST", "/contexts/" + name).head.status, 404) << name;
  }
  EXPECT_EQ(call("GET", "/contexts/" + id).head.status, 404);
  EXPECT_EQ(call("PUT", "/contexts").head.status, 404);
  EXPECT_EQ(print("echo on", {{"context_id", id}}), "on\n");
}

TEST_F(InterpreterTest, AttackWhatIsSaidAgainIsShort) {
  std::string much(kMiB, 'x');
  auto language = call("POST", "/execute", json::serialize(json::object{{"code", "1"}, {"language", much}}));
  EXPECT_EQ(language.head.status, 400);
  EXPECT_LT(language.body.size(), 1000u);
  auto context = call("POST", "/execute", json::serialize(json::object{{"code", "1"}, {"context_id", much}}));
  EXPECT_EQ(context.head.status, 404);
  EXPECT_LT(context.body.size(), 1000u);
  auto made = call("POST", "/contexts", json::serialize(json::object{{"language", much}}));
  EXPECT_EQ(made.head.status, 400);
  EXPECT_LT(made.body.size(), 1000u);
}

TEST_F(InterpreterTest, AttackRequestsThatAreNoneAreRefused) {
  std::string deep = R"({"language":"bash","code":)" + std::string(100'000, '[');
  for (const std::string& body : std::vector<std::string>{
           "", "null", "[]", "\"code\"", deep, R"({"code":1,"language":"bash"})",
           R"({"code":"1","language":5})", R"({"code":"1","language":"bash","env_vars":[]})",
           R"({"code":"1","language":"bash","env_vars":{"A":1}})",
           R"({"code":"1","language":"bash","env_vars":{"":"x"}})",
           R"({"code":"1","language":"bash","env_vars":{"A\u0000B":"x"}})",
           R"({"code":"1","language":"bash","env_vars":{"A":"x\u0000y"}})",
           "{\"code\":\"\xff\xfe\",\"language\":\"bash\"}", R"({"code":"\ud800","language":"bash"})"}) {
    EXPECT_EQ(call("POST", "/execute", body).head.status, 400) << body.substr(0, 100);
  }
  for (const std::string& body : std::vector<std::string>{
           "null", R"({"language":"bash","cwd":7})", R"({"language":"bash","cwd":"../x"})",
           R"({"language":"../../bin/bash"})", R"({"language":"/bin/bash"})"}) {
    EXPECT_EQ(call("POST", "/contexts", body).head.status, 400) << body;
  }
  EXPECT_EQ(call("GET", "/contexts").body, "[]") << "no context is left of them";
}

TEST_F(InterpreterTest, AttackCodeWithANulByteIsNotRunInPart) {
  auto lines = run(std::string("touch ") + directory_ + "/ran" + '\0' + "; true");
  EXPECT_EQ(text_of(lines, "error", "name"), "SyntaxError");
  EXPECT_FALSE(fs::exists(directory_ + "/ran"));
  EXPECT_EQ(print("echo on"), "on\n");
}

TEST_F(InterpreterTest, AttackVariablesAreNeverCode) {
  std::string touch = "touch " + directory_ + "/ran";
  json::object hostile{{"QUOTES", "'; " + touch + "; '"},
                       {"DOLLAR", "$(" + touch + ")`" + touch + "`"},
                       {"LINES_", "a\n" + touch + "\n"},
                       {"A;" + touch, "x"},
                       {"B\n" + touch + "\n", "x"},
                       {"C[$(" + touch + ")]", "x"},
                       {"BASH_FUNC_echo%%", "() { " + touch + "; }"}};
  std::string seen = print("printf %s \"$QUOTES|$DOLLAR|$LINES_\"", {{"env_vars", hostile}});
  EXPECT_EQ(seen, "'; " + touch + "; '|$(" + touch + ")`" + touch + "`|a\n" + touch + "\n");
  EXPECT_FALSE(fs::exists(directory_ + "/ran"));
  EXPECT_EQ(print("echo \"[$QUOTES]\""), "[]\n");
}

// KERNEL: no program starts with a variable of more than 128 KiB (MAX_ARG_STRLEN, execve(2)).
TEST_F(InterpreterTest, AttackAGiantVariableIsOfItsCallAlone) {
  json::object giant{{"BIG", std::string(200'000, 'x')}};
  EXPECT_EQ(print("echo ${#BIG}", {{"env_vars", giant}}), "200000\n");
  EXPECT_THAT(text_of(run("/bin/true", {{"env_vars", giant}}), "stderr"), HasSubstr("too long"));
  EXPECT_EQ(print("/bin/true && echo on"), "on\n");
}

class FewContextsTest : public InterpreterTest {
 protected:
  FewContextsTest()
      : InterpreterTest(kInterruptLimit, nullptr, [](Options& options) { options.max_contexts = 3; }) {}
};

TEST_F(FewContextsTest, AttackAFullTableOfContextsRefusesMore) {
  std::string last;
  for (int n = 0; n < 3; ++n) last = make_context();
  auto refused = call("POST", "/contexts", R"({"language":"bash"})");
  EXPECT_EQ(refused.head.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("contexts already"));
  EXPECT_EQ(call("POST", "/execute", execute_body("1")).head.status, 429) << "nor a default one";
  EXPECT_EQ(print("echo on", {{"context_id", last}}), "on\n");
  EXPECT_EQ(call("DELETE", "/contexts/" + last).head.status, 200);
  EXPECT_EQ(print("echo on"), "on\n");
}

TEST_F(InterpreterTest, AttackCallsThatWaitAreBoundedAndEndWithTheirContext) {
  std::string id = make_context();
  run("true");  // so that the next ones are authorized without a question
  std::vector<std::optional<Result<http::Answer>>> answers(kMaxQueued + 2);
  for (auto& answer : answers)
    post("/execute", execute_body("sleep 1000", {{"context_id", json::value(id)}}), answer);
  auto refused = [&] {
    return std::count_if(answers.begin(), answers.end(),
                         [](const auto& answer) { return answer.has_value(); });
  };
  while (refused() == 0) loop_.run_one();
  EXPECT_EQ(call("DELETE", "/contexts/" + id).head.status, 200);
  std::map<int, int> statuses;
  for (auto& answer : answers) {
    while (!answer) loop_.run_one();
    ASSERT_TRUE(answer->ok()) << answer->error().message();
    ++statuses[(*answer)->head.status];
    if ((*answer)->head.status == 200)
      EXPECT_EQ(text_of(lines_of((*answer)->body), "error", "name"), "ContextRemoved");
  }
  EXPECT_GE(statuses[429], 1);
  EXPECT_EQ(statuses[200] + statuses[429], static_cast<int>(answers.size()));
  EXPECT_EQ(print("echo on"), "on\n");
}

TEST_F(InterpreterTest, AttackAContextWhoseClientLeftBeforeItsNameIsNotKept) {
  std::string program = directory_ + "/kernels/bash_kernel.sh", go = directory_ + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  sys::Fd gate(::open(go.c_str(), O_RDWR | O_CLOEXEC));
  prepend(program, "read <" + go + "\n");
  std::string body = R"({"language":"bash"})";
  auto exchange = await(client_->start(request("POST", "/contexts", body.size(), "right")));
  ASSERT_TRUE(exchange.ok());
  ASSERT_TRUE(await((*exchange)->write_body(body)).ok());
  auto contexts = [&] { return json::parse(call("GET", "/contexts").body).as_array().size(); };
  while (contexts() == 0) loop_.run_one_for(std::chrono::milliseconds(1));
  (*exchange)->close();
  settle();
  ASSERT_EQ(::write(gate.get(), "now\n", 4), 4);
  while (contexts() > 0) loop_.run_one_for(std::chrono::milliseconds(1));
}

// --- code

TEST_F(InterpreterTest, AttackCodeThatClosesItsOutputsEnds) {
  run("exec >&- 2>&-; echo lost");
  run("echo lost");
  auto contexts = json::parse(call("GET", "/contexts").body).as_array();
  std::string id(contexts.at(0).at("id").as_string());
  EXPECT_EQ(call("POST", "/contexts/" + id + "/restart").body, "null");
  EXPECT_EQ(print("echo on"), "on\n");
}

TEST_F(InterpreterTest, AttackWhatRunsInTheBackgroundHoldsNoCall) {
  std::vector<pid_t> pids;
  for (const char* code :
       {"sleep 1000 & echo $!", "(trap '' INT TERM HUP; sleep 1000) & disown; echo $!",
        "setsid sleep 1000 & echo $!", "(while true; do echo x; sleep 0.01; done) >&2 & echo $!"}) {
    pids.push_back(static_cast<pid_t>(std::stoi(print(code))));
    EXPECT_EQ(print("echo on"), "on\n") << code;
  }
  for (pid_t pid : pids) ::kill(pid, SIGKILL);
}

class HastyAttackTest : public InterpreterTest {
 protected:
  HastyAttackTest() : InterpreterTest(Steady::duration(0)) {}
};

TEST_F(HastyAttackTest, AttackCodeThatStopsItsKernelIsKilled) {
  begin("echo on; kill -STOP $$", "on")->close();
  EXPECT_EQ(text_of(run("echo lost"), "error", "name"), "KernelDied");
  EXPECT_EQ(print("echo on"), "on\n");
}

// --- kernels

TEST_F(InterpreterTest, AttackEventsOfAHostileKernelAreData) {
  std::string go = directory_ + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  auto exchange = begin("echo on; read <" + go, "on");
  for (const std::string& event : std::vector<std::string>{
           "\n", "null", "[]", "{", std::string(1, '\0'), "\xff\xfe", R"({"result":5,"main":"yes"})",
           R"({"result":{"type":"end_of_execution","is_main_result":7,"extra":1,"__proto__":{"a":1}}})",
           R"({"result":{"text/plain":{"a":[]},"image/png":null},"main":true})", R"({"error":[]})",
           R"({"error":{"name":{},"value":[],"traceback":7}})",
           R"({"error":{"name":"a\nb\u001b[2J","value":"\u0000","traceback":""}})", R"({"begun":1,"x":2})",
           std::string(3000, '['), R"({"type":"end_of_execution"})"}) {
    EXPECT_GT(write_events(event + "\n", 1), 0u);
  }
  sys::Fd gate(::open(go.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(gate.get(), "now\n", 4), 4);
  auto rest = await(exchange->read_all(kMiB));
  ASSERT_TRUE(rest.ok()) << rest.error().message();
  auto lines = lines_of(*rest);  // each is an object
  int ends = 0, results = 0;
  for (const json::object& line : lines) {
    ends += line.at("type") == "end_of_execution";
    if (line.at("type") != "result") continue;
    ++results;
    EXPECT_TRUE(line.at("is_main_result").is_bool() && line.at("extra").is_object());
  }
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(results, 2);
  EXPECT_EQ(print("echo on"), "on\n");
}

// Not what a kernel is: it answers its sockets with something else, or not at all.
class StrangeKernelTest : public InterpreterTest {
 protected:
  StrangeKernelTest()
      : InterpreterTest(kInterruptLimit, R"(
for file; do :; done
exec /usr/bin/python3 - "$file" <<'END'
import json, socket, sys
prefix = json.load(open(sys.argv[1]))["ip"]
listeners = []
for number in (2, 1):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{prefix}-{number}")
    listener.listen()
    listeners.append(listener)
while True:
    peer, _ = listeners[0].accept()
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 10)
    peer.close()
END
)") {}
};

TEST_F(StrangeKernelTest, AttackAKernelThatSpeaksSomethingElseIsTold) {
  auto made = call("POST", "/contexts", R"({"language":"python"})");
  EXPECT_EQ(made.head.status, 503);
  EXPECT_THAT(made.body, HasSubstr("did not start"));
  EXPECT_EQ(print("echo on"), "on\n");
}

// Speaks ZMTP and Jupyter's messages, and says what the code names.
constexpr char kHostileKernel[] = R"(
for file; do :; done
exec /usr/bin/python3 - "$file" <<'END'
import json, os, socket, struct, sys
prefix = json.load(open(sys.argv[1]))["ip"]
mark = b"<IDS|MSG>"
def frame(flags, body):
    wide = len(body) > 255
    size = struct.pack(">Q", len(body)) if wide else bytes([len(body)])
    return bytes([flags | (2 if wide else 0)]) + size + body
def read(peer, size):
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more: os._exit(0)
        data += more
    return data
def receive(peer):
    parts = []
    while True:
        flags = read(peer, 1)[0]
        body = read(peer, struct.unpack(">Q", read(peer, 8))[0] if flags & 2 else read(peer, 1)[0])
        if flags & 4: continue
        parts.append(body)
        if not flags & 1: return parts
def send(peer, *parts):
    peer.sendall(b"".join(frame(1 if at + 1 < len(parts) else 0, part) for at, part in enumerate(parts)))
def accept(number, kind):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{prefix}-{number}")
    listener.listen(1)
    peer, _ = listener.accept()
    peer.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48))
    read(peer, 64)
    peer.sendall(frame(4, b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind))
    return peer
iopub, shell = accept(2, b"PUB"), accept(1, b"ROUTER")
def tell(peer, kind, parent, content):
    send(peer, mark, b"", json.dumps({"msg_type": kind}).encode(), parent, b"{}", content)
def garbage(parent):
    for parts in ([b""], [mark], [b"x"] * 500, [mark] * 6, [mark, b"", b"{", parent, b"{}", b"{}"],
                  [mark, b"", b"\xff\xfe", parent, b"{}", b"{}"], [mark, b"", b"[]", b"[]", b"{}", b"{}"]):
        send(iopub, *parts)
        send(shell, *parts)
def types(parent):
    wrong = (b'{"text":5,"name":[],"data":7,"ename":{},"evalue":[],"traceback":{},'
             b'"execution_count":"x","execution_state":[]}')
    contents = (b"{}", b"[]", b"null", b"7", b"\xff", wrong, b"[" * 10000,
                b'{"data":{"text/plain":[7],"__proto__":{}}}')
    for kind in ("stream", "execute_result", "display_data", "error", "execute_input", "status",
                 "comm_open", "x" * 1000, ""):
        for content in contents:
            tell(iopub, kind, parent, content)
def other(parent):
    tell(iopub, "stream", b'{"msg_id":"other"}', b'{"name":"stdout","text":"not yours"}')
    tell(iopub, "stream", b"{}", b'{"name":"stdout","text":"nobody\'s"}')
def early(parent):
    for _ in range(3):
        tell(iopub, "status", parent, b'{"execution_state":"idle"}')
        tell(shell, "execute_reply", parent, b'{"status":"ok"}')
def commands(parent):
    for body in (b"\x04PING\x00\x00x", b"\x05ERROR\x03bad", b"\x05READY", b"", b"\xff"):
        iopub.sendall(frame(4, body))
def much(parent):
    tell(iopub, "stream", parent, b'{"name":"stdout","text":"' + b"x" * (65 << 20) + b'"}')
def flags(parent):
    iopub.sendall(b"\xf8\x01x")
def say(parent):
    tell(iopub, "stream", parent, b'{"name":"stdout","text":"on\\n"}')
while True:
    parts = receive(shell)
    at = parts.index(mark)
    header, kind = parts[at + 2], json.loads(parts[at + 2])["msg_type"]
    if kind == "execute_request": globals()[json.loads(parts[at + 5])["code"]](header)
    tell(iopub, "status", header, b'{"execution_state":"idle"}')
    tell(shell, kind.replace("request", "reply"), header, b'{"status":"ok"}')
END
)";

class HostileKernelTest : public InterpreterTest {
 protected:
  HostileKernelTest() : InterpreterTest(kInterruptLimit, kHostileKernel) {
    EXPECT_EQ(call("GET", "/ready").head.status, 200);
    json::array contexts = json::parse(call("GET", "/contexts").body).as_array();
    for (const auto& context : contexts)
      if (context.at("language") == "python") id_ = context.at("id").as_string();
  }
  std::vector<json::object> in_kernel(const std::string& code) {
    return run(code, {{"context_id", json::value(id_)}});
  }
  std::string id_;
};

TEST_F(HostileKernelTest, AttackMessagesThatAreNoneSayNothing) {
  for (const char* code : {"garbage", "other", "early", "commands"}) {
    auto lines = in_kernel(code);
    EXPECT_EQ(lines.size(), 1u) << code << ": " << json::serialize(lines.front());
    EXPECT_EQ(text_of(in_kernel("say"), "stdout"), "on\n") << code;
  }
}

TEST_F(HostileKernelTest, AttackContentOfAnyShapeIsData) {
  auto lines = in_kernel("types");  // each is an object
  for (const json::object& line : lines) {
    EXPECT_TRUE(line.at("type").is_string());
    if (line.at("type") == "stdout") EXPECT_TRUE(line.at("text").is_string());
  }
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const json::object& line) { return line.at("type") == "end_of_execution"; }),
            1);
  EXPECT_EQ(text_of(in_kernel("say"), "stdout"), "on\n");
}

TEST_F(HostileKernelTest, AttackAMessageThatIsTooLargeIsToldAndLeftOut) {
  auto lines = in_kernel("much");
  EXPECT_EQ(text_of(lines, "error", "name"), "OutputTooLarge");
  EXPECT_EQ(text_of(lines, "stdout"), "");
  EXPECT_EQ(text_of(in_kernel("say"), "stdout"), "on\n");
}

TEST_F(HostileKernelTest, AttackAKernelThatBreaksTheProtocolHasDied) {
  EXPECT_EQ(text_of(in_kernel("flags"), "error", "name"), "KernelDied");
  EXPECT_EQ(text_of(in_kernel("say"), "stdout"), "on\n");
}

// --- other users of the sandbox

class RunDirectoryTest : public InterpreterTest {
 protected:
  RunDirectoryTest()
      : InterpreterTest(kInterruptLimit, nullptr, [](Options& options) {
          options.run_directory = make_run_directory(options.home).value();
        }) {
    for (const auto& entry : fs::directory_iterator(directory_)) {
      std::string name = entry.path().filename();
      if (name.starts_with(".atoll-interpreter-")) run_ = entry.path();
    }
  }
  std::string run_;
};

TEST(RunDirectory, LiesInATmpfsWhereThereIsOne) {
  EXPECT_EQ(run_parent("/nowhere", "/disk"), "/disk");
  EXPECT_EQ(run_parent("/proc", "/disk"), "/disk");
  struct statfs info{};
  if (::statfs("/dev/shm", &info) != 0 || info.f_type != TMPFS_MAGIC) GTEST_SKIP() << "no tmpfs in /dev/shm";
  EXPECT_EQ(run_parent("/dev/shm", "/disk"), "/dev/shm");
}

TEST_F(RunDirectoryTest, AttackNobodyElseReadsWhatKernelsAreStartedWith) {
  run("true");
  struct stat info{};
  ASSERT_EQ(::stat(run_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(run_)) {
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST_F(RunDirectoryTest, AttackOneWhoseFolderWasRemovedStartsKernelsAgain) {
  EXPECT_EQ(print("x=1; rm -r " + run_ + "; echo $x"), "1\n");
  EXPECT_EQ(print("echo $x"), "1\n");
  std::string id = make_context();
  EXPECT_EQ(print("echo on", {{"context_id", id}}), "on\n");
  struct stat info{};
  ASSERT_EQ(::stat(run_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(RunDirectoryTest, AttackAFolderThatSomebodyPutInItsPlaceIsNotUsed) {
  fs::remove_all(run_);
  fs::create_directory(directory_ + "/theirs");
  fs::create_directory_symlink(directory_ + "/theirs", run_);
  auto refused = call("POST", "/contexts", R"({"language":"bash"})");
  EXPECT_EQ(refused.head.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("no folder of this user alone"));
  fs::remove(run_);
  fs::create_directory(run_);
  fs::permissions(run_, fs::perms::all);
  EXPECT_EQ(call("POST", "/contexts", R"({"language":"bash"})").head.status, 403);
  EXPECT_TRUE(fs::is_empty(directory_ + "/theirs"));
  fs::remove(run_);
  EXPECT_EQ(print("echo on"), "on\n");
}

}  // namespace
}  // namespace atl::guest::interpreter
