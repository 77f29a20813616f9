// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/units.h"
#include "store/database.h"
#include "store/events.h"
#include "store/sandboxes.h"
#include "store/templates.h"
#include "store/tenants.h"

namespace atl::store {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    directory_ = std::filesystem::temp_directory_path() / ("atoll-store-" + random_hex(8));
    std::filesystem::create_directories(directory_);
  }
  ~StoreTest() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return (directory_ / "state.db").string(); }
  std::unique_ptr<Database> open() {
    auto opened = Database::open(path());
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    return std::move(*opened);
  }
  // A file as Atoll makes it, with some rows on several pages.
  void fill() {
    auto db = open();
    for (int i = 0; i < 200; ++i) {
      auto done = db->run_blocking(
          [i](Connection& c) { return save_meta(c, fmt::format("key{}", i), std::string(200, 'x')); });
      ASSERT_TRUE(done.ok());
    }
  }
  void overwrite(std::streamoff at, const std::string& bytes) {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << bytes;
  }

  std::filesystem::path directory_;
};

model::SandboxRow row(const std::string& id, std::uint64_t epoch) {
  model::SandboxRow out;
  out.id = id;
  out.tenant = "t";
  out.owner_epoch = epoch;
  out.metadata = {{"a", "1"}, {"ü", "\"quoted\""}};
  out.network.internet = false;
  out.labels = {"npm", "git"};
  out.network.allow.push_back(*model::parse_cidr("10.0.0.0/8"));
  out.ingress.mask_request_host = "x:${PORT}";
  out.access_token = Secret("token");
  out.internal_token[31] = 7;
  out.deadline = {123};
  out.lifecycle = {model::Lifecycle::OnTimeout::kPause, false, true, Millis(7), Millis(9)};
  out.active_steady_ms = 11;
  out.pause_cause = model::PauseCause::kIdle;
  out.memory_note = "a reason";
  out.rests_in_memory = false;
  out.user = "user";
  out.workdir = "/home/user";
  return out;
}

Task<> write_one(Database& db, std::string key, bool fail, int* finished) {
  auto job = [key, fail](Connection& c) -> Result<void> {
    TRY_VOID(save_meta(c, key, "v"));
    if (fail) return make_error(Code::kConflict, "no");
    return {};
  };
  auto answer = co_await db.run(std::move(job));
  EXPECT_EQ(answer.ok(), !fail) << key;
  ++*finished;
}

TEST_F(StoreTest, RowsSurviveReopeningAsTheyWere) {
  {
    auto db = open();
    auto saved = db->run_blocking([](Connection& c) {
      return save_sandbox(c, row("i1", 1), model::Intent{model::Operation::kStop, {99}});
    });
    ASSERT_TRUE(saved.ok()) << saved.error().message();
  }
  auto db = open();
  auto loaded = db->run_blocking([](Connection& c) { return load_live_sandboxes(c); });
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  ASSERT_EQ(loaded->size(), 1u);
  const auto& stored = loaded->front();
  auto expected = row("i1", 1);
  EXPECT_EQ(stored.row.metadata, expected.metadata);
  EXPECT_EQ(stored.row.network, expected.network);
  EXPECT_EQ(stored.row.labels, expected.labels);
  EXPECT_EQ(stored.row.ingress, expected.ingress);
  EXPECT_EQ(stored.row.internal_token, expected.internal_token);
  EXPECT_TRUE(stored.row.access_token.matches("token"));
  EXPECT_EQ(stored.row.deadline.ms, 123);
  EXPECT_EQ(stored.row.lifecycle, expected.lifecycle);
  EXPECT_FALSE(stored.row.rests_in_memory);
  EXPECT_EQ(stored.row.memory_note, "a reason");
  EXPECT_EQ(stored.row.user, "user");
  EXPECT_EQ(stored.row.workdir, "/home/user");
  ASSERT_TRUE(stored.intent);
  EXPECT_EQ(stored.intent->operation, model::Operation::kStop);
}

// A job that fails takes back what it did itself, and nothing of the jobs that share its transaction.
TEST_F(StoreTest, AFailedJobTakesNothingAlong) {
  auto db = open();
  async::asio::io_context io;
  int finished = 0;
  for (int i = 0; i < 40; ++i) {
    async::asio::co_spawn(io, write_one(*db, fmt::format("k{}", i), i % 4 == 3, &finished),
                          async::asio::detached);
  }
  io.run();
  EXPECT_EQ(finished, 40);
  for (int i = 0; i < 40; ++i) {
    auto value = db->run_blocking([i](Connection& c) { return load_meta(c, fmt::format("k{}", i)); });
    EXPECT_EQ(*value, i % 4 == 3 ? "" : "v") << i;
  }
}

TEST_F(StoreTest, JobsThatWaitTogetherShareACommit) {
  auto db = open();
  async::asio::io_context io;
  auto before = db->counters();
  int finished = 0;
  for (int i = 0; i < 200; ++i) {
    async::asio::co_spawn(io, write_one(*db, fmt::format("{}", i), false, &finished), async::asio::detached);
  }
  io.run();
  auto after = db->counters();
  EXPECT_EQ(after.jobs - before.jobs, 200u);
  EXPECT_LT(after.commits - before.commits, 100u);
}

// PRAGMA max_page_count makes SQLite answer as on a full disk.
TEST_F(StoreTest, AFullDiskIsATypedErrorAndLosesNothing) {
  auto db = open();
  ASSERT_TRUE(db->run_blocking([](Connection& c) { return save_meta(c, "kept", "yes"); }).ok());
  auto limit = db->run_blocking([](Connection& c) -> Result<void> {
    TRY(Statement count, c.prepare("PRAGMA page_count"));
    TRY_VOID(count.step());
    return c.exec(fmt::format("PRAGMA max_page_count = {}", count.integer(0)));
  });
  ASSERT_TRUE(limit.ok());
  auto big = db->run_blocking([](Connection& c) { return save_meta(c, "big", std::string(1 << 20, 'x')); });
  ASSERT_FALSE(big.ok());
  EXPECT_EQ(big.error().code(), Code::kNoSpace) << big.error().message();
  EXPECT_EQ(big.error().word(), "disk_full");
  EXPECT_EQ(*db->run_blocking([](Connection& c) { return load_meta(c, "kept"); }), "yes");
  ASSERT_TRUE(db->run_blocking([](Connection& c) { return c.exec("PRAGMA max_page_count = 1000000"); }).ok());
  EXPECT_TRUE(
      db->run_blocking([](Connection& c) { return save_meta(c, "big", std::string(1 << 20, 'x')); }).ok());
}

TEST_F(StoreTest, ADamagedFileIsRefused) {
  fill();
  for (std::streamoff at : {0, 4096 * 3}) {
    std::filesystem::copy_file(path(), path() + ".good", std::filesystem::copy_options::overwrite_existing);
    overwrite(at, std::string(2000, '\x5a'));
    auto opened = Database::open(path());
    ASSERT_FALSE(opened.ok()) << at;
    EXPECT_EQ(opened.error().code(), Code::kCorrupt) << opened.error().message();
    EXPECT_FALSE(opened.error().hint().empty());
    std::filesystem::rename(path() + ".good", path());
  }
  EXPECT_TRUE(Database::open(path()).ok());
}

TEST_F(StoreTest, ANewerSchemaIsRefusedAndLeftAlone) {
  {
    auto db = open();
    ASSERT_TRUE(db->run_blocking([](Connection& c) { return save_meta(c, "k", "v"); }).ok());
  }
  {
    auto connection = Connection::open(path());
    ASSERT_TRUE((*connection)->exec("PRAGMA user_version = 1000").ok());
  }
  auto refused = Database::open(path());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().word(), "schema_newer");
  auto connection = Connection::open(path());
  EXPECT_EQ(*load_meta(**connection, "k"), "v");
}

TEST_F(StoreTest, AnotherProgramsDatabaseIsRefused) {
  {
    auto connection = Connection::open(path());
    ASSERT_TRUE((*connection)->exec("CREATE TABLE x(a); PRAGMA user_version = 3").ok());
  }
  auto refused = Database::open(path());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kCorrupt);
}

// A step that fails in the middle leaves nothing, and is done again the next time.
TEST_F(StoreTest, AnInterruptedMigrationStartsAgain) {
  auto connection = std::move(*Connection::open(path()));
  ASSERT_TRUE(migrate(*connection, migrations()).ok());
  auto steps = migrations();
  steps.push_back(
      {"0900_half", "CREATE TABLE half (a INTEGER) STRICT; INSERT INTO no_such_table VALUES (1)"});
  auto broken = migrate(*connection, steps);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message().find("0900_half"), std::string::npos);
  EXPECT_FALSE(connection->exec("SELECT * FROM half").ok());
  steps.back().sql = "CREATE TABLE half (a INTEGER) STRICT";
  EXPECT_TRUE(migrate(*connection, steps).ok());
  EXPECT_TRUE(connection->exec("SELECT * FROM half").ok());
  EXPECT_TRUE(migrate(*connection, steps).ok()) << "a second time there is nothing to do";
}

TEST_F(StoreTest, AnEarlierOwnerCannotWriteALatersRow) {
  auto db = open();
  ASSERT_TRUE(
      db->run_blocking([](Connection& c) { return save_sandbox(c, row("i1", 5), std::nullopt); }).ok());
  auto old = db->run_blocking([](Connection& c) { return save_sandbox(c, row("i1", 4), std::nullopt); });
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().word(), "fenced");
  EXPECT_TRUE(
      db->run_blocking([](Connection& c) { return save_sandbox(c, row("i1", 6), std::nullopt); }).ok());
}

TEST_F(StoreTest, EachStartTakesANewOwnerEpoch) {
  for (std::uint64_t expected = 1; expected <= 3; ++expected) {
    auto db = open();
    EXPECT_EQ(*db->run_blocking([](Connection& c) { return next_owner_epoch(c); }), expected);
  }
}

TEST_F(StoreTest, TheJournalIsReadInOrderAndIsBounded) {
  auto db = open();
  for (int i = 0; i < 50; ++i) {
    model::Event event{0, {1000 + i}, i % 2 ? "a" : "b", "i1", "sandbox.x", "m", "{}"};
    ASSERT_EQ(*db->run_blocking([event](Connection& c) { return append_event(c, event); }), i + 1);
  }
  EventQuery query;
  query.tenant = "a";
  query.after = 10;
  query.limit = 5;
  auto page = *db->run_blocking([query](Connection& c) { return load_events(c, query); });
  ASSERT_EQ(page.size(), 5u);
  EXPECT_EQ(page.front().seq, 12);
  EXPECT_EQ(page.back().seq, 20);
  query = {.all_tenants = true, .since = WallTime{1040}, .until = WallTime{1042}};
  auto count = [&] {
    return db->run_blocking([query](Connection& c) { return load_events(c, query); })->size();
  };
  EXPECT_EQ(count(), 3u);
  query.type = "sandbox.y";
  EXPECT_EQ(count(), 0u);
  query.type = "sandbox.x";
  query.search = "n";
  EXPECT_EQ(count(), 0u);
  query.search = "m";
  query.limit = 2;
  EXPECT_EQ(count(), 2u) << "the bound is that of what was asked for";
  EXPECT_EQ(*db->run_blocking([](Connection& c) { return prune_events(c, {0}, 20, 1000); }), 30);
  EXPECT_EQ(*db->run_blocking([](Connection& c) { return prune_events(c, {1040}, 100, 3); }), 3)
      << "at most so many at a time";
  auto next =
      *db->run_blocking([](Connection& c) { return append_event(c, {0, {1}, "a", "", "x", "", "{}"}); });
  EXPECT_EQ(next, 51) << "a number is never used twice";
}

TEST_F(StoreTest, EndedRowsArePrunedButNotThoseStillHeld) {
  auto db = open();
  for (int i = 0; i < 10; ++i) {
    auto done = db->run_blocking([i](Connection& c) {
      auto r = row(fmt::format("i{}", i), 1);
      r.state = model::State::kFailed;
      r.ended_at = {1000 + i};
      return save_sandbox(
          c, r, i == 0 ? std::optional(model::Intent{model::Operation::kRelease, {1}}) : std::nullopt);
    });
    ASSERT_TRUE(done.ok());
  }
  EXPECT_EQ(*db->run_blocking([](Connection& c) { return prune_sandboxes(c, {1005}, 100, 100); }), 4);
  EXPECT_EQ(db->run_blocking([](Connection& c) { return load_live_sandboxes(c); })->size(), 1u);
  EXPECT_EQ(*db->run_blocking([](Connection& c) { return prune_sandboxes(c, {0}, 2, 100); }), 3);
  EXPECT_EQ(db->run_blocking([](Connection& c) { return load_ended_sandboxes(c, "t", 100); })->size(), 3u);
}

TEST_F(StoreTest, TenantsKeepTheirLimits) {
  auto db = open();
  model::Tenant tenant{"t", "tenant", {2, 3 * kMiB, 5, 7, 11 * kMiB}, {1}};
  ASSERT_TRUE(db->run_blocking([&](Connection& c) { return insert_tenant(c, tenant); }).ok());
  auto loaded = db->run_blocking([](Connection& c) { return load_tenants(c); });
  ASSERT_TRUE(loaded.ok());
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_EQ(loaded->front().limit, tenant.limit);
}

TEST_F(StoreTest, TemplatesKeepTheirTagsAndGoWithTheirBuilds) {
  auto db = open();
  model::Template base;
  base.id = "tttttttttttttttttttt";
  base.tenant = "t";
  base.alias = "base";
  base.tags = {{"default", "b1"}, {"v1", "b1"}};
  model::Build build;
  build.id = "b1";
  build.template_id = base.id;
  build.envs = {{"K", "V"}};
  auto saved = db->run_blocking([&](Connection& c) -> Result<void> {
    TRY_VOID(insert_tenant(c, {"t", "tenant", {}, {1}}));
    auto bare = base;
    bare.tags.clear();
    TRY_VOID(save_template(c, bare));
    TRY_VOID(insert_build(c, build));
    return save_template(c, base);
  });
  ASSERT_TRUE(saved.ok()) << saved.error().message();
  auto loaded = *db->run_blocking([](Connection& c) { return load_templates(c); });
  ASSERT_EQ(loaded.templates.size(), 1u);
  EXPECT_EQ(loaded.templates[0].tags, base.tags);
  EXPECT_EQ(loaded.builds[0].envs, build.envs);
  auto other = base;
  other.id = "uuuuuuuuuuuuuuuuuuuu";
  EXPECT_EQ(db->run_blocking([&](Connection& c) { return save_template(c, other); }).error().code(),
            Code::kExists);
  ASSERT_TRUE(db->run_blocking([&](Connection& c) { return delete_template(c, base.id); }).ok());
  loaded = *db->run_blocking([](Connection& c) { return load_templates(c); });
  EXPECT_TRUE(loaded.templates.empty());
  EXPECT_TRUE(loaded.builds.empty());
}

}  // namespace
}  // namespace atl::store
