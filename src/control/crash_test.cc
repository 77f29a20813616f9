// SPDX-License-Identifier: Apache-2.0
//
// Control is killed at each of its named crash points, by itself, in the middle of a day's work; then started
// again. The runner (a fake one, in the test's own process) lives on. Afterwards the two must agree, nothing
// may be left over, and what was acknowledged must be true. Invariants I1, I3 and I4 of the fault corpus.
//
// The work runs in a child: this same program, started with the filter CrashChild.*.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <set>

#include "support/control_world.h"

extern char** environ;

namespace atl::control {
namespace {

using test::kBuild;
using test::kBuild2;
using test::World;
using Memory = SandboxService::Memory;

constexpr int kRunnerFd = 50;
constexpr int kReportFd = 51;

// One line to the parent. A line that was sent is an acknowledgement.
void report(const std::string& line) {
  std::string text = line + "\n";
  if (::write(kReportFd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
}

Task<Result<net::SeqPacketPtr>> inherited_runner(async::Executor executor) {
  static bool used = false;
  if (std::exchange(used, true)) co_return make_error(Code::kUnavailable, "one connection only");
  co_return net::adopt_seqpacket(executor, sys::Fd(kRunnerFd));
}

class Child {
 public:
  explicit Child(const std::string& directory)
      : world_({}, directory, [this] { return inherited_runner(world_.io.get_executor()); }) {}

  // Every operation once; each ends up at some crash points.
  void work() {
    world_.add_template("base", kBuild, 1);
    world_.connect();
    world_.fill();
    std::string claimed = create({});
    std::string closed = create(closed_network());  // from nothing: the pool was not filled again
    service().set_timeout_and_report(world_, claimed);
    world_.fill();
    std::string doomed = create({});
    model::NetworkRules rules;
    rules.deny.push_back(*model::parse_cidr("9.9.9.9"));
    report("dying " + doomed);
    (void)world_.run(
        world_.service->set_network(world_.tenant, doomed, rules));  // the fake runner then lets it die
    world_.until([&] { return !world_.service->get(world_.tenant, doomed).ok(); });
    std::string brief = create({}, std::chrono::seconds(5));
    report("dying " + brief);
    world_.clock.advance(std::chrono::seconds(6));
    world_.service->fire_deadlines();
    settle();
    snapshots(claimed);
    for (Memory memory : {Memory::kKeep, Memory::kLose}) {
      if (world_.run(world_.service->pause(world_.tenant, claimed, memory))) report("paused " + claimed);
      auto woken = world_.run(
          world_.service->connect(world_.tenant, claimed, std::chrono::seconds(600), Memory::kKeep));
      if (woken) report("resumed " + claimed);
    }
    report("killing " + closed);
    if (world_.run(world_.service->kill(world_.tenant, closed)).ok()) report("killed " + closed);
    world_.add_template("base", kBuild2, 1);
    world_.fill();
    world_.run(world_.service->prune());
  }

  // A snapshot that stays, one that goes, a sandbox from the first and a fork.
  void snapshots(const std::string& source) {
    std::string kept = snapshot(source), removed = snapshot(source);
    auto spec = world_.spec();
    spec.template_ref = kept;
    create(spec);
    report("removing " + removed);
    if (world_.run(world_.service->delete_snapshot(world_.tenant, removed)).ok())
      report("removed " + removed);
    auto children =
        world_.run(world_.service->fork({world_.tenant, source, 2, std::chrono::seconds(600), false}));
    if (!children) std::_Exit(4);
    for (const auto& child : *children) {
      if (child.ok()) report("created " + (*child)->id);
    }
  }
  std::string snapshot(const std::string& source) {
    auto taken = world_.run(world_.service->snapshot({world_.tenant, source, "", false}));
    if (!taken) std::_Exit(5);
    report("snapshot " + (*taken)->row.id);
    return (*taken)->row.id;
  }

  // What is known after the start.
  void recover() {
    world_.connect();
    settle();
    std::set<std::string> ready;
    ListQuery all;
    all.tenant = world_.tenant;
    for (const auto& row : world_.service->list(all).rows) {
      report("running " + row->id);
      report(fmt::format("{} {}", row->state == model::State::kRunning ? "awake" : "asleep", row->id));
    }
    for (const auto& entry : world_.service->snapshots().list({world_.tenant, "", ""}))
      report("stored " + entry->row.id);
    report(fmt::format("ready {}", world_.service->status().ready));
    report(fmt::format("held {}", world_.service->quota().held()));
    report("done");
  }

 private:
  struct Service {
    void set_timeout_and_report(World& world, const std::string& id) const {
      auto done = world.run(world.service->set_timeout(world.tenant, id, std::chrono::seconds(777),
                                                       SandboxService::Extend::kReplace));
      if (done) report("timeout " + id);
    }
  };
  Service service() const { return {}; }
  void settle() { world_.run(world_.service->settle()); }
  CreateSpec closed_network() const {
    auto spec = world_.spec();
    spec.network.internet = false;
    spec.network.allow.push_back(*model::parse_cidr("1.1.1.1"));
    return spec;
  }
  std::string create(std::optional<CreateSpec> spec, Millis timeout = std::chrono::seconds(600)) {
    CreateSpec wanted = spec ? *spec : world_.spec();
    wanted.timeout = timeout;
    auto made = world_.create(std::move(wanted));
    if (!made) {
      report("failed " + made.error().message());
      std::_Exit(3);
    }
    report("created " + (*made)->id);
    return (*made)->id;
  }

  World world_;
};

TEST(CrashChild, DISABLED_Work) {
  const char* directory = std::getenv("ATOLL_CRASH_DIR");
  if (!directory) GTEST_SKIP();
  Child(directory).work();
}

TEST(CrashChild, DISABLED_Recover) {
  const char* directory = std::getenv("ATOLL_CRASH_DIR");
  if (!directory) GTEST_SKIP();
  Child(directory).recover();
}

// The names of all crash points in the sources of this folder. Each child reads them, so this is to be quick:
// no expressions.
std::set<std::string> fault_points() {
  constexpr std::string_view kBegin = "FAULT(\"", kEnd = "\")";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ATOLL_CONTROL_SOURCES)) {
    if (entry.path().filename() == "crash_test.cc") continue;
    std::ifstream file(entry.path());
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    for (std::size_t at = 0; (at = text.find(kBegin, at)) != std::string::npos;) {
      at += kBegin.size();
      names.insert(text.substr(at, text.find(kEnd, at) - at));
    }
  }
  return names;
}

class CrashTest : public ::testing::Test {
 protected:
  CrashTest() : directory_(World::new_directory()), runner_(io_.get_executor()) {
    std::filesystem::create_directories(directory_);
    runner_.on_network = [this](const std::string& id) {
      for (const auto& rule : runner_.entries[id].rules.deny) {
        if (model::format_cidr(rule) == "9.9.9.9") runner_.die(id);
      }
    };
  }
  ~CrashTest() override {
    runner_.disconnect();
    while (!io_.stopped()) io_.run();
    std::filesystem::remove_all(directory_);
  }

  // Runs the child to its end; its wait status. The lines it reported are in lines_.
  int run_child(const std::string& test, const std::string& fault) {
    int runner[2], lines[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, runner), 0);
    EXPECT_EQ(::pipe2(lines, O_CLOEXEC | O_NONBLOCK), 0);
    pid_t pid = spawn(test, fault, runner[1], lines[1]);
    ::close(runner[1]);
    ::close(lines[1]);
    runner_.serve_on(net::adopt_seqpacket(io_.get_executor(), sys::Fd(runner[0])));
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0 || runner_.connected()) {
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(5));
    }
    read_lines(lines[0]);
    ::close(lines[0]);
    return status;
  }

  bool happened(const std::string& line) const { return lines_.count(line) > 0; }
  std::set<std::string> ids(const std::string& verb) const {
    std::set<std::string> out;
    for (const auto& line : lines_) {
      if (line.rfind(verb + " ", 0) == 0) out.insert(line.substr(verb.size() + 1));
    }
    return out;
  }

  void expect_whole(const std::string& what) {
    auto created = ids("created");
    auto killed = ids("killed");
    auto killing = ids("killing");
    auto dying = ids("dying");
    auto snapshots = ids("snapshot"), removing = ids("removing"), removed = ids("removed");
    lines_.clear();
    int status = run_child("Recover", "");
    ASSERT_TRUE(WIFEXITED(status) && happened("done")) << what << ": the next start did not end well";
    auto running = ids("running");
    for (const auto& id : created) {
      bool may_be_gone = killing.count(id) || dying.count(id);
      EXPECT_TRUE(running.count(id) || may_be_gone) << what << ": " << id << " was acknowledged and is lost";
    }
    for (const auto& id : killed)
      EXPECT_FALSE(running.count(id)) << what << ": " << id << " was killed and runs";
    for (const auto& id : ids("awake")) EXPECT_EQ(runner_.entries[id].rest, wire::Rest::kRuns) << what;
    for (const auto& id : ids("asleep")) EXPECT_NE(runner_.entries[id].rest, wire::Rest::kRuns) << what;
    for (const auto& id : running) {
      EXPECT_TRUE(runner_.entries.count(id)) << what << ": " << id << " does not run";
    }
    auto stored = ids("stored");
    for (const auto& id : snapshots) {
      EXPECT_TRUE(stored.count(id) || removing.count(id)) << what << ": snapshot " << id << " is lost";
    }
    for (const auto& id : removed)
      EXPECT_FALSE(stored.count(id)) << what << ": snapshot " << id << " is back";
    std::set<std::string> copies;
    for (const auto& [id, sandbox] : runner_.copies) copies.insert(id);
    EXPECT_EQ(copies, stored) << what << ": copies and snapshots differ";
    std::size_t ready = std::stoul(*ids("ready").begin());
    EXPECT_EQ(runner_.entries.size(), running.size() + ready) << what << ": something is left over";
    auto rests = [](const auto& entry) { return entry.second.rest == wire::Rest::kStored; };
    auto on_disk = std::count_if(runner_.entries.begin(), runner_.entries.end(), rests);
    EXPECT_EQ(std::stoul(*ids("held").begin()) + static_cast<std::size_t>(on_disk), running.size() + ready)
        << what << ": the counters are wrong";
  }

  async::asio::io_context io_{1};
  std::filesystem::path directory_;
  test::FakeRunner runner_;
  std::set<std::string> lines_;

 private:
  pid_t spawn(const std::string& test, const std::string& fault, int runner, int lines) {
    std::string filter = "--gtest_filter=CrashChild.DISABLED_" + test;
    std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> environment{"ATOLL_CRASH_DIR=" + directory_.string(), "ATOLL_FAULT=" + fault,
                                         "PATH=/usr/bin"};
    std::vector<char*> env, argv;
    for (auto& text : environment) env.push_back(text.data());
    env.push_back(nullptr);
    std::string also = "--gtest_also_run_disabled_tests";
    for (auto* text : {&self, &filter, &also}) argv.push_back(text->data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, runner, kRunnerFd);
    posix_spawn_file_actions_adddup2(&actions, lines, kReportFd);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, self.c_str(), &actions, nullptr, argv.data(), env.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  void read_lines(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines_.insert(line);
  }
};

class CrashAt : public CrashTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(CrashAt, NothingIsLostAndNothingIsLeft) {
  const std::string& fault = GetParam();
  bool only_in_recovery = fault.rfind("reconcile.", 0) == 0 && fault != "reconcile.listed" &&
                          fault != "reconcile.loaded" && fault != "reconcile.done";
  if (!only_in_recovery) {
    int status = run_child("Work", fault);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << fault << " was not reached: status " << status;
  } else {
    (void)run_child("Work", "create.started");
    runner_.entries["iorphan00000000000000"] = test::FakeRunner::Entry();
  }
  // Killed again in the middle of the recovery, where this point lies on its way; then whole.
  (void)run_child("Recover", fault);
  expect_whole(fault);
}

INSTANTIATE_TEST_SUITE_P(Control, CrashAt, ::testing::ValuesIn(fault_points()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST_F(CrashTest, WithoutACrashTheWholeWorkIsDone) {
  int status = run_child("Work", "");
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(ids("created").size(), 7u);
  EXPECT_EQ(ids("snapshot").size(), 2u);
  EXPECT_EQ(ids("killed").size(), 1u);
  expect_whole("no crash");
}

TEST(CrashPoints, ThereAreEnoughOfThem) { EXPECT_GE(fault_points().size(), 20u); }

}  // namespace
}  // namespace atl::control
