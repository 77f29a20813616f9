// SPDX-License-Identifier: Apache-2.0
//
// Snapshots and forks of the service, over the real wires to a fake runner and fake guests.
#include "control/snapshots.h"

#include <gtest/gtest.h>

#include <set>

#include "support/control_world.h"

namespace atl::control {
namespace {

using test::kBuild;
using test::World;
using wire::Type;

class SnapshotsTest : public ::testing::Test {
 protected:
  SnapshotsTest() {
    world_.add_template("base", kBuild, 0);
    world_.connect();
    settle();
    auto spec = world_.spec();
    spec.metadata = {{"job", "7"}};
    spec.network.internet = false;
    parent_ = create(spec);
  }
  SandboxService& service() { return *world_.service; }
  void settle() { world_.run(service().settle()); }
  std::string create(CreateSpec spec) {
    auto made = world_.create(std::move(spec));
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made.ok() ? (*made)->id : std::string();
  }
  Result<SnapshotView> take(const std::string& name = {}, bool memory = false) {
    return world_.run(service().snapshot({world_.tenant, parent_, name, memory}));
  }
  Result<SandboxView> from(const std::string& reference) {
    auto spec = world_.spec();
    spec.template_ref = reference;
    return world_.create(std::move(spec));
  }
  Result<Children> fork(std::size_t count, bool memory = false) {
    return world_.run(service().fork({world_.tenant, parent_, count, std::chrono::seconds(60), memory}));
  }
  Result<void> remove(const std::string& reference) {
    return world_.run(service().delete_snapshot(world_.tenant, reference));
  }
  std::vector<SnapshotView> list(const std::string& name = {}, const std::string& sandbox = {}) {
    return service().snapshots().list({world_.tenant, sandbox, name});
  }
  std::size_t copies() { return world_.runner.copies.size(); }
  void restart() {
    world_.crash();
    world_.reopen();
    world_.connect();
    settle();
  }

  World world_;
  std::string parent_;
};

TEST_F(SnapshotsTest, StandsForATemplateUntilItIsDeleted) {
  auto taken = take();
  ASSERT_TRUE(taken.ok()) << taken.error().message();
  std::string id = (*taken)->row.id, reference = id + ":default";
  EXPECT_EQ(snapshot_reference((*taken)->row), reference);
  EXPECT_EQ((*taken)->row.stored_bytes, 7u << 20);
  for (const std::string& name : {id, reference}) {
    auto made = from(name);
    ASSERT_TRUE(made.ok()) << made.error().message();
    EXPECT_EQ((*made)->template_id, id);
    EXPECT_EQ(world_.runner.started_from.back(), id);
  }
  EXPECT_EQ(list("", parent_).size(), 1u);
  EXPECT_EQ(list("", "iother").size(), 0u);
  EXPECT_EQ(list(id).size(), 1u);
  ASSERT_TRUE(remove(reference).ok());
  EXPECT_EQ(copies(), 0u);
  EXPECT_EQ(remove(reference).error().code(), Code::kNotFound);
  EXPECT_EQ(from(reference).error().code(), Code::kNotFound);
}

TEST_F(SnapshotsTest, ANameMovesToTheNewest) {
  auto first = take("mine");
  auto other = take("mine:v2");
  ASSERT_TRUE(first.ok() && other.ok());
  EXPECT_EQ(snapshot_reference((*first)->row), "mine:default");
  auto second = take("mine");
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(from("mine").ok());
  EXPECT_EQ(world_.runner.started_from.back(), (*second)->row.id);
  ASSERT_TRUE(from((*first)->row.id).ok());
  EXPECT_EQ(list("mine").size(), 2u);
  EXPECT_EQ(list("mine:v2").size(), 1u);
  EXPECT_EQ(list("nobody").size(), 0u);
  restart();
  ASSERT_TRUE(from("mine:v2").ok());
  EXPECT_EQ(world_.runner.started_from.back(), (*other)->row.id);
  EXPECT_EQ(list("mine:default").front()->row.id, (*second)->row.id);
  EXPECT_EQ(take("base").error().word(), "name_taken");
  EXPECT_EQ(take("Not A Name").error().code(), Code::kInvalid);
}

// The guest daemon in the copied memory knows its parent's token until it is told its own, which is none that
// anybody else has.
TEST_F(SnapshotsTest, ChildrenOfMemoryGetTokensOfTheirOwn) {
  world_.runner.memory_tiers = world_.runner.tiers;
  restart();  // it is told in the hello
  std::string parents = world_.guests.tokens[parent_].front();
  auto children = fork(2, true);
  ASSERT_TRUE(children.ok()) << children.error().message();
  EXPECT_EQ(world_.runner.restored, 2u);
  std::set<std::string> tokens;
  for (const auto& child : *children) {
    ASSERT_TRUE(child.ok()) << child.error().message();
    const std::string& body = world_.guests.inits[(*child)->id].front();
    std::size_t at = body.find("\"internalToken\":\"");
    ASSERT_NE(at, std::string::npos) << body;
    tokens.insert(body.substr(at, 90));
    EXPECT_EQ(world_.guests.tokens[(*child)->id].front(), parents);
    EXPECT_EQ(body.find(parents), std::string::npos);
  }
  EXPECT_EQ(tokens.size(), 2u);
  auto kept = take("warm", true);
  ASSERT_TRUE(kept.ok()) << kept.error().message();
  EXPECT_TRUE((*kept)->row.memory);
  restart();
  auto made = from("warm");
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(world_.guests.tokens[(*made)->id].front(), parents);
}

// Who wants to connect meanwhile waits; the clocks of its requests go on afterwards.
TEST_F(SnapshotsTest, MemoryIsCopiedWhileNobodyIsConnected) {
  world_.runner.memory_tiers = world_.runner.quiet_tiers = world_.runner.tiers;
  restart();
  std::size_t inits = world_.guests.inits[parent_].size();
  std::vector<model::State> seen;
  auto subscription = service().on_gone([&](std::string_view sandbox, std::uint64_t) {
    seen.push_back(service().find(sandbox)->state);
    EXPECT_TRUE(service().find(sandbox)->auto_resume);
  });
  ASSERT_TRUE(take("", true).ok());
  EXPECT_EQ(seen, std::vector<model::State>{model::State::kPausing});
  EXPECT_EQ(world_.guests.freezes[parent_],
            std::vector<std::string>{R"({"stop":false,"sync":true,"outside":true})"});
  EXPECT_EQ(world_.guests.inits[parent_].size(), inits + 1);
  EXPECT_EQ(service().find(parent_)->state, model::State::kRunning);
  world_.guests.outside = R"({"outside":2})";
  auto refused = take("", true);
  EXPECT_EQ(refused.error().word(), "outside_connections");
  EXPECT_EQ(service().find(parent_)->state, model::State::kRunning);
  EXPECT_TRUE(take("", false).ok()) << "its disk alone";
}

TEST_F(SnapshotsTest, MemoryIsRefusedByTheNameOfTheCapability) {
  for (const Error& error : {take("", true).error(), fork(1, true).error()}) {
    EXPECT_EQ(error.word(), "capability_unsupported");
    EXPECT_NE(error.message().find("memory_snapshot"), std::string::npos) << error.message();
  }
  EXPECT_EQ(copies(), 0u);
  EXPECT_EQ(list().size(), 0u);
}

TEST_F(SnapshotsTest, OutlivesItsSandboxAndItsTemplate) {
  auto taken = take("mine");
  ASSERT_TRUE(taken.ok());
  ASSERT_TRUE(world_.run(service().kill(world_.tenant, parent_)).ok());
  ASSERT_TRUE(world_.run(world_.catalog->remove(world_.tenant, "base")).ok());
  EXPECT_TRUE(from("mine").ok());
  restart();
  EXPECT_TRUE(from("mine").ok());
}

TEST_F(SnapshotsTest, IsNotDeletedWhileASandboxStartsFromIt) {
  auto taken = take("mine");
  ASSERT_TRUE(taken.ok());
  world_.runner.hold.insert(Type::kStart);
  std::optional<Result<SandboxView>> made;
  auto spec = world_.spec();
  spec.template_ref = "mine";
  world_.spawn(service().create(spec), [&](Result<SandboxView> result) { made = std::move(result); });
  world_.until([&] { return world_.runner.waiting == 1; });
  EXPECT_EQ(remove("mine").error().word(), "snapshot_in_use");
  world_.runner.release_held();
  world_.until([&] { return made.has_value(); });
  EXPECT_TRUE(made->ok());
  EXPECT_TRUE(remove("mine").ok());
}

// agent-substrate/substrate#1539: a snapshot that failed leaves nothing. Field: a full disk keeps the old
// state.
TEST_F(SnapshotsTest, AFailedOneLeavesNothingAndTheNameWhereItWas) {
  auto first = take("mine");
  ASSERT_TRUE(first.ok());
  world_.runner.fail.emplace(Type::kSnapshot, make_error(Code::kNoSpace, "full").with_word("disk_full"));
  EXPECT_EQ(take("mine").error().word(), "disk_full");
  EXPECT_EQ(fork(2).error().word(), "disk_full");
  world_.runner.fail.clear();
  EXPECT_EQ(list().size(), 1u);
  EXPECT_EQ(copies(), 1u);
  ASSERT_TRUE(from("mine").ok());
  EXPECT_TRUE(service().get(world_.tenant, parent_).ok());
}

TEST_F(SnapshotsTest, ARefusedWakingLeavesAPausedOneThatCanBeCopied) {
  ASSERT_TRUE(world_.run(service().pause(world_.tenant, parent_, SandboxService::Memory::kLose)).ok());
  world_.runner.fail.emplace(Type::kResume, make_error(Code::kInternal, "no").with_word("no"));
  auto refused = world_.run(
      service().connect(world_.tenant, parent_, std::chrono::seconds(60), SandboxService::Memory::kKeep));
  EXPECT_EQ(refused.error().word(), "no");
  world_.runner.fail.clear();
  EXPECT_TRUE(take("mine").ok());
  auto children = fork(2);
  EXPECT_TRUE(children.ok()) << children.error().message();
}

TEST_F(SnapshotsTest, OneThatControlDiedInIsRemoved) {
  world_.runner.hold.insert(Type::kSnapshot);
  world_.spawn(service().snapshot({world_.tenant, parent_, "mine", false}), [](Result<SnapshotView>) {});
  world_.until([&] { return copies() == 1 && world_.runner.waiting == 1; });
  restart();
  EXPECT_EQ(copies(), 0u);
  EXPECT_EQ(list().size(), 0u);
  EXPECT_TRUE(take("mine").ok());
}

TEST_F(SnapshotsTest, ACopyWithoutARowGoesAndARowWithoutACopySaysSo) {
  auto taken = take("mine");
  ASSERT_TRUE(taken.ok());
  world_.runner.copies.erase((*taken)->row.id);
  world_.runner.copies["00000000000000000000"] = "nobody";
  restart();
  EXPECT_EQ(copies(), 0u);
  EXPECT_EQ(from("mine").error().word(), "snapshot_missing");
  auto collected = world_.run(service().collect_snapshots());
  ASSERT_TRUE(collected.ok());
  EXPECT_EQ(collected->rows, 1u);
  EXPECT_EQ(list().size(), 0u);
}

// kvcache-ai/AgentENV#33: each child is somebody else.
TEST_F(SnapshotsTest, TenChildrenShareNothingThatNamesOrOpensThem) {
  auto children = fork(10);
  ASSERT_TRUE(children.ok()) << children.error().message();
  ASSERT_EQ(children->size(), 10u);
  std::set<std::string> ids, tokens, internal, randoms;
  auto parent = service().get(world_.tenant, parent_);
  tokens.insert(std::string((*parent)->access_token.reveal()));
  for (const auto& child : *children) {
    ASSERT_TRUE(child.ok()) << child.error().message();
    const model::SandboxRow& row = **child;
    ids.insert(row.id);
    tokens.insert(std::string(row.access_token.reveal()));
    internal.insert(std::string(row.internal_token.begin(), row.internal_token.end()));
    std::string init = world_.guests.inits[row.id].back();
    randoms.insert(init.substr(init.find("\"random\"")));
    EXPECT_EQ(row.metadata, (*parent)->metadata);
    EXPECT_EQ(row.network, (*parent)->network);
    EXPECT_EQ(row.template_id, (*parent)->template_id);
  }
  EXPECT_EQ(ids.size(), 10u);
  EXPECT_EQ(tokens.size(), 11u);
  EXPECT_EQ(internal.size(), 10u);
  EXPECT_EQ(randoms.size(), 10u);
  EXPECT_EQ(copies(), 0u);  // the copy that they started from is gone
  EXPECT_EQ(list().size(), 0u);
}

TEST_F(SnapshotsTest, ChildrenOfAForkHaveTheEnvironmentThatTheirDiskHasAndNoRowHasIt) {
  auto spec = world_.spec();
  spec.envs = {{"API_KEY", "s3cret"}};
  parent_ = create(spec);
  using Memory = SandboxService::Memory;
  auto child_init = [&] {
    auto children = fork(1);
    if (!children.ok() || !(*children)[0].ok()) return std::string("no child");
    return world_.guests.inits[(*(*children)[0])->id].at(0);
  };
  EXPECT_NE(child_init().find(R"("keepEnvironment":true)"), std::string::npos);
  for (Memory memory : {Memory::kKeep, Memory::kLose}) {
    ASSERT_TRUE(world_.run(service().pause(world_.tenant, parent_, memory)).ok());
    EXPECT_NE(child_init().find(R"("keepEnvironment":true)"), std::string::npos);
    ASSERT_TRUE(world_.run(service().connect(world_.tenant, parent_, std::chrono::seconds(60), memory)).ok());
  }
  // A create from a snapshot is nobody's child: it has what it names itself.
  auto taken = take();
  ASSERT_TRUE(taken.ok());
  auto made = from((*taken)->row.id);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(world_.guests.inits[(*made)->id].at(0).find("keepEnvironment"), std::string::npos);
  world_.flush();
  for (const char* name : {"control/state.db", "control/state.db-wal"}) {
    std::ifstream file(world_.path(name), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(bytes.find("s3cret"), std::string::npos) << name;
  }
}

TEST_F(SnapshotsTest, AForkTellsOfEachChildByItself) {
  world_.runner.slots = 3;  // the parent and two more
  auto children = fork(4);
  ASSERT_TRUE(children.ok());
  auto made = std::count_if(children->begin(), children->end(), [](const auto& child) { return child.ok(); });
  EXPECT_EQ(made, 2);
  for (const auto& child : *children) {
    if (!child.ok()) EXPECT_EQ(child.error().word(), "capacity");
  }
  EXPECT_EQ(copies(), 0u);
  EXPECT_EQ(fork(0).error().code(), Code::kInvalid);
  EXPECT_EQ(fork(101).error().code(), Code::kInvalid);
}

TEST_F(SnapshotsTest, WithoutTheRunnerARemovalIsCarriedOutLater) {
  auto taken = take("mine");
  ASSERT_TRUE(taken.ok());
  world_.runner.fail.emplace(Type::kDropSnapshot, make_error(Code::kUnavailable, "gone"));
  EXPECT_FALSE(remove("mine").ok());
  EXPECT_EQ(from("mine").error().code(), Code::kNotFound);
  world_.runner.fail.clear();
  restart();
  EXPECT_EQ(copies(), 0u);
}

}  // namespace
}  // namespace atl::control
