// SPDX-License-Identifier: Apache-2.0
//
// Parts of the runner that need no privilege.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runner/driver.h"
#include "runner/options.h"
#include "runner/records.h"
#include "runner/server.h"
#include "runner/templates.h"

namespace atl::runner {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Records : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-records-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  static Record record(char letter) {
    Record out;
    out.sandbox.set("i" + std::string(20, letter));
    out.generation = 5;
    out.slot = 9;
    out.set_rules({false, {{{1, 2, 3, 0}, 24}}, {{{4, 4, 4, 4}, 32}, {{5, 5, 0, 0}, 16}}});
    return out;
  }
  std::string path_;
};

TEST_F(Records, ComeBackAsTheyWere) {
  RecordStore store(path_);
  ASSERT_TRUE(store.write(record('a')).ok());
  ASSERT_TRUE(store.write(record('b')).ok());
  store.remove("i" + std::string(20, 'b'));
  std::vector<Record> all = store.read_all().value();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].sandbox.str(), "i" + std::string(20, 'a'));
  EXPECT_EQ(all[0].generation, 5u);
  EXPECT_EQ(all[0].slot, 9u);
  EXPECT_EQ(all[0].rules(), record('a').rules());
}

TEST_F(Records, HalfWrittenFileIsSweptAndTheWholeOneStays) {
  RecordStore store(path_);
  ASSERT_TRUE(store.write(record('a')).ok());
  std::ofstream(path_ + "/i" + std::string(20, 'a') + ".tmp") << "half";
  EXPECT_EQ(store.read_all().value().size(), 1u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
}

// The room is taken before anything depends on it.
TEST_F(Records, OneThatIsPreparedIsSeenWhenItIsCompleted) {
  RecordStore store(path_);
  ASSERT_TRUE(store.write(record('a')).ok());
  Record changed = record('a');
  changed.generation = 6;
  ASSERT_TRUE(store.prepare(changed).ok());
  std::filesystem::copy(path_, path_ + "-copy");
  EXPECT_EQ(RecordStore(path_ + "-copy").read_all().value().at(0).generation, 5u)
      << "of one that died in between";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_ + "-copy"), {}), 1);
  std::filesystem::remove_all(path_ + "-copy");
  ASSERT_TRUE(store.complete(changed.sandbox.str()).ok());
  ASSERT_TRUE(store.complete(changed.sandbox.str()).ok());
  EXPECT_EQ(store.read_all().value().at(0).generation, 6u);
  ASSERT_TRUE(store.prepare(changed).ok());
  store.remove(changed.sandbox.str());
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(Records, ForeignFilesAreAnErrorAndStay) {
  RecordStore store(path_);
  ASSERT_TRUE(store.write(record('a')).ok());
  std::filesystem::rename(path_ + "/i" + std::string(20, 'a'),
                          path_ + "/i" + std::string(20, 'c'));  // another's name
  EXPECT_FALSE(store.read_all().ok());
  std::filesystem::remove(path_ + "/i" + std::string(20, 'c'));
  std::ofstream(path_ + "/i" + std::string(20, 'd')) << "short";
  EXPECT_EQ(store.read_all().error().code(), Code::kCorrupt);
  Record newer = record('d');
  newer.version = kRecordVersion + 1;
  ASSERT_TRUE(store.write(newer).ok());
  EXPECT_EQ(store.read_all().error().code(), Code::kCorrupt);
}

TEST_F(Records, RuleCountsBeyondTheArraysAreCut) {
  Record bad = record('a');
  bad.allow_count = 255;
  EXPECT_EQ(bad.rules().allow.size(), model::kMaxNetworkRules);
}

Result<Options> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "atoll-runner");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  optind = 0;
  return parse_options(static_cast<int>(words.size()), arguments.data());
}

TEST(Options, AreReadAndBounded) {
  Result<Options> good =
      parse({"--run-dir", "/r", "--instance", "two", "--slot-first", "100", "--slot-count=50",
             "--ready-slots", "500", "--disk-mib", "128", "--control-uid", "7"});
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_EQ(good->socket, "/r/runner.sock");
  EXPECT_EQ(good->slots.first, 100u);
  EXPECT_EQ(good->slots.count, 50u);
  EXPECT_EQ(good->ready_slots, 50u);
  EXPECT_EQ(good->disk_bytes, 128ull << 20);
  EXPECT_EQ(good->control_uid, 7);
  for (std::vector<std::string> bad : {std::vector<std::string>{"--slot-count", "0"},
                                       {"--slot-count", "4097"},
                                       {"--slot-first", "4095", "--slot-count", "2"},
                                       {"--slot-first", "-1"},
                                       {"--slot-first", "1x"},
                                       {"--instance", "../x"},
                                       {"--instance", ""},
                                       {"--disk-mib", "1"},
                                       {"stray"}}) {
    EXPECT_FALSE(parse(bad).ok()) << testing::PrintToString(bad);
  }
  EXPECT_EQ(parse({"--help"})->action, Options::Action::kHelp);
  for (const char* flag : {"data-dir", "run-dir", "socket", "control-user", "control-uid", "slot-first",
                           "slot-count", "instance", "guestd", "ready-slots", "ready-disks", "disk-mib"}) {
    EXPECT_THAT(options_help(), HasSubstr(std::string("--") + flag));
  }
}

TEST(Builds, AreUuidsAndNothingElse) {
  EXPECT_TRUE(valid_build("0123abcd-0123-4123-8123-0123456789ab"));
  for (const char* bad : {"", "0123abcd-0123-4123-8123-0123456789aB", "0123abcd-0123-4123-8123-0123456789a",
                          "0123abcd-0123-4123-8123-0123456789ab0", "../../../../../../../../../../etc/pa",
                          "0123abcd/0123-4123-8123-0123456789ab", "0123abcd-0123-4123-8123-01234567..ab"}) {
    EXPECT_FALSE(valid_build(bad)) << bad;
  }
}

TEST(Requests, HaveOneSizeEach) {
  namespace wire = model::wire;
  EXPECT_EQ(request_size(static_cast<std::uint16_t>(wire::Type::kStart)), sizeof(wire::StartRequest));
  EXPECT_EQ(request_size(static_cast<std::uint16_t>(wire::Type::kHello)), sizeof(wire::Empty));
  for (unsigned type = 0; type < 65536; ++type) {
    EXPECT_LE(request_size(static_cast<std::uint16_t>(type)), wire::kMaxMessage);
    bool request = type >= 1 && type <= 15;
    EXPECT_EQ(request_size(static_cast<std::uint16_t>(type)) != 0, request) << type;
  }
}

template <class Request>
Job job_of(const ConnectionPtr& connection, model::wire::Type type, const char* sandbox,
           model::Tier tier = model::Tier::kGvisor) {
  namespace wire = model::wire;
  Request request{};
  request.header = wire::Header{wire::kMagic, wire::kVersion, static_cast<std::uint16_t>(type), 1};
  request.sandbox.set(sandbox);
  if constexpr (std::is_same_v<Request, wire::StartRequest>) request.tier = static_cast<std::uint8_t>(tier);
  return {connection, std::as_bytes(std::span(&request, 1))};
}

class Jobs : public testing::Test {
 protected:
  static ConnectionPtr connection() { return std::make_shared<Connection>(sys::Fd()); }
  Job start(const char* sandbox, model::Tier tier = model::Tier::kGvisor) const {
    return job_of<model::wire::StartRequest>(old_, model::wire::Type::kStart, sandbox, tier);
  }
  Job stop(const char* sandbox) const {
    return job_of<model::wire::SandboxRef>(new_, model::wire::Type::kStop, sandbox);
  }
  Job list() const { return job_of<model::wire::SandboxRef>(new_, model::wire::Type::kList, ""); }
  void put(Job job) { EXPECT_EQ(jobs_.put(std::move(job), called_off_), JobQueue::Put::kTaken); }

  const ConnectionPtr old_ = connection(), new_ = connection();
  JobQueue jobs_{3};
  std::vector<Job> called_off_;
};

TEST_F(Jobs, AStopTakesAwayTheStartThatStillWaits) {
  for (model::Tier tier : {model::Tier::kContainer, model::Tier::kGvisor}) {
    called_off_.clear();
    put(start("one", tier));
    put(start("two", tier));
    put(stop("one"));
    ASSERT_EQ(called_off_.size(), 1u);
    EXPECT_EQ(called_off_[0].sandbox(), "one");
    Lane lane = lane_of(start("two", tier).request());
    EXPECT_EQ(jobs_.take(lane)->sandbox(), "two");
    EXPECT_EQ(jobs_.take(Lane::kQuick)->sandbox(), "one");
  }
}

TEST_F(Jobs, AStopWaitsForTheStartThatAWorkerHas) {
  put(start("one"));
  std::optional<Job> begun = jobs_.take(Lane::kSlow);
  put(stop("one"));
  put(list());
  EXPECT_TRUE(called_off_.empty());
  EXPECT_EQ(jobs_.take(Lane::kQuick)->type(), model::wire::Type::kList);
  std::optional<Job> stopped;
  std::thread worker([&] { stopped = jobs_.take(Lane::kQuick); });
  jobs_.done(*begun);
  worker.join();
  EXPECT_EQ(stopped->type(), model::wire::Type::kStop);
}

TEST_F(Jobs, WhatWaitsForASlowRequestKeepsNoWorkerFromOthers) {
  for (auto slow :
       {job_of<model::wire::PauseRequest>(new_, model::wire::Type::kPause, "one"),
        job_of<model::wire::StartRequest>(new_, model::wire::Type::kResume, "one"), start("one")}) {
    put(slow);
    std::optional<Job> begun = jobs_.take(Lane::kSlow);
    put(stop("one"));
    put(job_of<model::wire::SandboxRef>(new_, model::wire::Type::kStats, "one"));
    put(stop("two"));
    EXPECT_EQ(jobs_.take(Lane::kQuick)->sandbox(), "two");
    jobs_.done(*begun);
    EXPECT_EQ(jobs_.take(Lane::kQuick)->type(), model::wire::Type::kStop);
    EXPECT_EQ(jobs_.take(Lane::kQuick)->type(), model::wire::Type::kStats);
  }
}

// A copy of a disk lets its sandbox go when a stop has come to it.
TEST_F(Jobs, AStopDoesNotWaitForACopy) {
  put(job_of<model::wire::SnapshotRequest>(new_, model::wire::Type::kSnapshot, "one"));
  ASSERT_TRUE(jobs_.take(Lane::kSlow));
  put(stop("one"));
  EXPECT_EQ(jobs_.take(Lane::kQuick)->sandbox(), "one");
}

TEST_F(Jobs, NothingNewIsBegunForAControlThatIsGone) {
  put(start("one"));
  put(job_of<model::wire::SnapshotRequest>(old_, model::wire::Type::kSnapshot, "one"));
  put(job_of<model::wire::PauseRequest>(old_, model::wire::Type::kPause, "two"));
  old_->close();
  EXPECT_EQ(jobs_.take(Lane::kSlow)->type(), model::wire::Type::kPause);
}

TEST_F(Jobs, ThereAreNotMoreThanTheBound) {
  for (const char* sandbox : {"one", "two", "three"}) put(start(sandbox));
  EXPECT_EQ(jobs_.put(start("four"), called_off_), JobQueue::Put::kFull);
  put(stop("four"));
  jobs_.end();
  EXPECT_FALSE(jobs_.take(Lane::kSlow));
}

class Bare final : public Driver {
 public:
  model::Tier tier() const override { return model::Tier::kGvisor; }
  Capabilities capabilities() const override { return {}; }
  Result<void> prepare(const std::string&) override { return success(); }
  void forget(const std::string&) override {}
  Result<Started> start(const StartSpec&, Leases&, StepTimes&) override {
    return unsupported(tier(), "start");
  }
  Result<void> stop(const Running&) override { return success(); }
  Result<std::array<std::uint64_t, 2>> inspect(const Running&) override {
    return std::array<std::uint64_t, 2>{};
  }
};

TEST(Drivers, RefuseWhatTheyCannotDoByItsName) {
  Bare driver;
  for (const Result<void>& refused : {driver.pause({}), driver.resume({}), driver.sync({})}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Code::kUnsupported);
    EXPECT_EQ(refused.error().word(), "capability_unsupported");
    EXPECT_THAT(refused.error().message(), HasSubstr("gvisor"));
  }
}

}  // namespace
}  // namespace atl::runner
