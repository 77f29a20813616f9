// SPDX-License-Identifier: Apache-2.0
//
// What tenants keep on disk: of sandboxes that rest there, and snapshots. Counted as it is, also after a
// restart, and refused before anything is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "support/service_fixture.h"

namespace atl::control {
namespace {

using test::ServiceTest;
using ::testing::HasSubstr;
using wire::Type;

class DiskQuotaTest : public ServiceTest {
 protected:
  using Memory = SandboxService::Memory;
  static constexpr std::uint64_t kDisk = model::Limits().disk_bytes;

  // A tenant that may have `bytes` of disk is who asks from now on.
  void limit_to(std::uint64_t bytes) {
    model::Amounts limit;
    limit.disk_bytes = bytes;
    auto tenant = world().run(world().identity->create_tenant("small", limit));
    ASSERT_TRUE(tenant.ok());
    tenant_ = tenant->id;
  }
  Result<SandboxView> create() {
    auto spec = world().spec();
    spec.tenant = tenant_;
    return world().create(spec);
  }
  std::string created() {
    auto made = create();
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made.ok() ? (*made)->id : std::string();
  }
  void pause(const std::string& id, Memory memory) {
    auto done = world().run(service().pause(tenant_, id, memory));
    ASSERT_TRUE(done.ok()) << done.error().message();
  }
  Result<void> connect(const std::string& id, Memory memory = Memory::kKeep) {
    auto done = world().run(service().connect(tenant_, id, std::chrono::seconds(60), memory));
    if (!done) return std::move(done).error();
    return success();
  }
  void kill(const std::string& id) { ASSERT_TRUE(world().run(service().kill(tenant_, id)).ok()); }
  Result<SnapshotView> snapshot(const std::string& id, bool memory = false) {
    return world().run(service().snapshot({tenant_, id, std::string(), memory}));
  }
  std::uint64_t disk() { return service().quota().host().disk_bytes; }
  void expect_refused(const Error& error) {
    EXPECT_EQ(error.word(), "quota");
    EXPECT_THAT(error.message(), HasSubstr("sandboxes and snapshots with"));
    EXPECT_THAT(error.message(), HasSubstr("of disk together"));
  }

  std::string tenant_;
};

TEST_F(DiskQuotaTest, WhatRestsOnItsDiskCountsForWhatItTakes) {
  limit_to(2 * kDisk);
  std::string one = created(), two = created();
  EXPECT_EQ(disk(), 2 * kDisk);
  pause(one, Memory::kLose);
  std::uint64_t kept = runner().disk_used;
  EXPECT_EQ(disk(), kDisk + kept);
  expect_refused(create().error());
  restart();
  EXPECT_EQ(disk(), kDisk + kept);
  EXPECT_TRUE(connect(one).ok()) << "it takes the rest of what it may take, and no more";
  EXPECT_EQ(disk(), 2 * kDisk);
  pause(one, Memory::kLose);
  kill(two);
  EXPECT_EQ(disk(), kept);
  kill(one);
  EXPECT_EQ(disk(), 0u);
}

TEST_F(DiskQuotaTest, MemoryInFilesIsOnDisk) {
  runner().memory_tiers = runner().tiers;
  limit_to(2 * kDisk);
  std::string id = created();
  pause(id, Memory::kKeep);
  std::uint64_t kept = runner().disk_used + runner().memory_used;
  EXPECT_EQ(disk(), kept);
  restart();
  EXPECT_EQ(disk(), kept);
  ASSERT_TRUE(connect(id).ok());
  EXPECT_EQ(disk(), kDisk) << "the files are gone";
  pause(id, Memory::kKeep);
  runner().fail.emplace(Type::kResume, make_error(Code::kCorrupt, "it does not boot"));
  EXPECT_FALSE(connect(id, Memory::kLose).ok());
  EXPECT_EQ(disk(), runner().disk_used) << "its memory went before";
  runner().fail.clear();
  kill(id);
  EXPECT_EQ(disk(), 0u);
}

TEST_F(DiskQuotaTest, OneThatCannotWakeForWantOfDiskGoesOnToRest) {
  limit_to(2 * kDisk + runner().disk_used);
  std::string one = created();
  pause(one, Memory::kLose);
  created();
  created();
  auto refused = connect(one);
  expect_refused(refused.error());
  EXPECT_EQ(disk(), 2 * kDisk + runner().disk_used);
  restart();
  EXPECT_EQ(disk(), 2 * kDisk + runner().disk_used);
}

TEST_F(DiskQuotaTest, SnapshotsCountForWhatTheyTake) {
  limit_to(2 * kDisk);
  std::string id = created();
  auto first = snapshot(id);
  ASSERT_TRUE(first.ok()) << first.error().message();
  std::uint64_t stored = (*first)->row.stored_bytes;
  ASSERT_GT(stored, 0u);
  EXPECT_EQ(disk(), kDisk + stored);
  expect_refused(snapshot(id).error());
  expect_refused(create().error());
  EXPECT_EQ(runner().copies.size(), 1u) << "nothing was copied in vain";
  restart();
  EXPECT_EQ(disk(), kDisk + stored);
  ASSERT_TRUE(world().run(service().delete_snapshot(tenant_, (*first)->row.id)).ok());
  EXPECT_EQ(disk(), kDisk);
  EXPECT_TRUE(snapshot(id).ok());
}

TEST_F(DiskQuotaTest, ACopyThatIsNotMadeOrIsGoneCountsForNothing) {
  limit_to(4 * kDisk);
  std::string id = created();
  runner().fail.emplace(Type::kSnapshot, make_error(Code::kNoSpace, "full"));
  EXPECT_FALSE(snapshot(id).ok());
  EXPECT_EQ(disk(), kDisk);
  runner().fail.clear();
  auto taken = snapshot(id);
  ASSERT_TRUE(taken.ok());
  std::uint64_t stored = (*taken)->row.stored_bytes;
  auto copies = std::exchange(runner().copies, {});
  restart();
  EXPECT_EQ(disk(), kDisk) << "the copy is gone";
  runner().copies = copies;
  restart();
  EXPECT_EQ(disk(), kDisk + stored) << "it is back";
  auto forked = world().run(service().fork({tenant_, id, 1, std::chrono::seconds(60), false}));
  ASSERT_TRUE(forked.ok());
  EXPECT_EQ(disk(), 2 * kDisk + stored) << "what a fork is made from has gone again";
}

TEST_F(DiskQuotaTest, TheHostHasALimit) {
  ServiceOptions options;
  options.max_sums.disk_bytes = kDisk;
  start(0, options);
  tenant_ = world().tenant;
  std::string id = created();
  pause(id, Memory::kLose);
  auto refused = create();
  EXPECT_EQ(refused.error().word(), "capacity");
  EXPECT_THAT(refused.error().message(), HasSubstr("of disk together"));
  EXPECT_TRUE(connect(id).ok());
}

}  // namespace
}  // namespace atl::control
