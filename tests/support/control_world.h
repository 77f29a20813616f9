// SPDX-License-Identifier: Apache-2.0
//
// World: a whole control plane in one process, with a fake runner and fake guests behind the real wires, a
// clock that the test moves, and a data directory that survives restart().
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "control/sandbox_service.h"
#include "support/fake_guest.h"
#include "support/fake_runner.h"

namespace atl::test {

inline constexpr char kBuild[] = "11111111-2222-4333-8444-555555555555";
inline constexpr char kBuild2[] = "99999999-2222-4333-8444-555555555555";

class World {
 public:
  explicit World(control::ServiceOptions options = {})
      : World(std::move(options), new_directory(), nullptr) {}
  // With a data directory that stays, and a runner somewhere else when `connect` is given.
  World(control::ServiceOptions options, std::filesystem::path directory,
        control::RunnerClient::Connect connect)
      : directory_(std::move(directory)),
        options_(std::move(options)),
        connect_(std::move(connect)),
        runner(io.get_executor()),
        guests(io.get_executor()) {
    std::filesystem::create_directories(directory_ / "control");
    for (const char* build : {kBuild, kBuild2}) {
      std::filesystem::create_directories(directory_ / "templates" / build);
      std::ofstream(directory_ / "templates" / build / "root.erofs") << "image";
      std::ofstream(directory_ / "templates" / build / "manifest.json") << "{}";
    }
    options_.background = control::ServiceOptions::Background::kNo;
    if (options_.boot_id.empty()) options_.boot_id = "boot-1";
    open();
  }
  ~World() {
    close();
    run(guests.stop());
    run(runner.stop());
    if (!connect_) std::filesystem::remove_all(directory_);
  }
  static std::filesystem::path new_directory() {
    return std::filesystem::temp_directory_path() / ("atoll-world-" + random_hex(8));
  }

  // Runs the task to its end and returns its value.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> out;
    async::asio::co_spawn(io, keep(std::move(task), &out), async::asio::detached);
    while (!out) step();
    return std::move(*out);
  }
  void run(Task<> task) {
    bool done = false;
    async::asio::co_spawn(io, mark(std::move(task), &done), async::asio::detached);
    while (!done) step();
  }
  // Runs until `condition` holds; the test fails when it does not within 20 s.
  template <class Condition>
  void until(Condition condition) {
    auto limit = Steady::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (Steady::now() > limit) return ADD_FAILURE() << "the condition was not reached";
      step();
    }
  }
  void step() {
    io.restart();
    io.run_one_for(std::chrono::milliseconds(20));
  }

  // As a crash leaves it: whatever was written stays, whatever was under way is gone, and the runner hears
  // nothing more.
  void crash() {
    auto copy = directory_ / "crashed";
    std::filesystem::create_directories(copy);
    for (const char* name : {"state.db", "state.db-wal"}) {
      if (std::filesystem::exists(directory_ / "control" / name)) {
        std::filesystem::copy_file(directory_ / "control" / name, copy / name,
                                   std::filesystem::copy_options::overwrite_existing);
      }
    }
    runner.disconnect();
    runner.down = true;
    runner.release_held();
    guests.release();
    close();
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "control"))
      std::filesystem::remove(entry);
    for (const auto& entry : std::filesystem::directory_iterator(copy)) {
      std::filesystem::rename(entry, directory_ / "control" / entry.path().filename());
    }
    runner.down = false;
  }
  void reopen() { open(); }
  void connect() {
    until([&] { return service->status().reconciled; });
  }

  // Runs beside the test; `then` gets the answer, unless the world is closed before.
  template <class T, class Then>
  void spawn(Task<T> task, Then then) {
    async::asio::co_spawn(io, pass_on(std::move(task), std::move(then)), async::asio::detached);
  }
  template <class T>
  Task<> forget(Task<T> task) {
    (void)co_await std::move(task);
  }
  // Brings the pools to their size.
  void fill() {
    std::size_t before = 0;
    do {
      before = runner.started;
      service->fill_pools();
      run(service->settle());
    } while (runner.started != before);
  }
  // Waits until the store has written all that it was given.
  void flush() {
    (void)db->run_blocking([](store::Connection&) { return Result<void>(); });
  }
  void fill_disk() {
    auto done = db->run_blocking([](store::Connection& c) -> Result<void> {
      TRY(store::Statement count, c.prepare("PRAGMA page_count"));
      TRY_VOID(count.step());
      return c.exec(fmt::format("PRAGMA max_page_count = {}", count.integer(0) + 2));
    });
    ASSERT_TRUE(done.ok());
  }
  void free_disk() {
    ASSERT_TRUE(db->run_blocking([](store::Connection& c) {
                    return c.exec("PRAGMA max_page_count = 1000000");
                  }).ok());
  }
  bool replace_token(const std::string& id, const std::string& token) {
    return db
        ->run_blocking([=](store::Connection& c) {
          return c.run("UPDATE sandboxes SET access_token = ? WHERE id = ?", token, id);
        })
        .ok();
  }
  void set_boot_id(const std::string& id) { options_.boot_id = id; }

  control::CreateSpec spec(Millis timeout = std::chrono::seconds(60)) const {
    control::CreateSpec spec;
    spec.tenant = tenant;
    spec.template_ref = "base";
    spec.timeout = timeout;
    return spec;
  }
  Result<control::SandboxView> create(control::CreateSpec spec) {
    return run(service->create(std::move(spec)));
  }
  Result<control::SandboxView> create() { return create(spec()); }
  void add_template(const std::string& name, const std::string& build, std::uint32_t pool_size) {
    control::Catalog::NewBuild request;
    request.tenant = tenant;
    request.name = *model::parse_template_ref(name);
    request.build.id = build;
    request.pool_size = pool_size;
    request.is_public = true;
    auto done = run(catalog->register_build(std::move(request)));
    ASSERT_TRUE(done.ok()) << done.error().message();
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  async::asio::io_context io{1};
  ManualClock clock;

 private:
  void open() {
    auto opened = store::Database::open(path("control/state.db"));
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    db = std::move(*opened);
    identity = std::make_unique<control::Identity>(*db, clock);
    catalog = std::make_unique<control::Catalog>(*db, clock, path("templates"));
    ASSERT_TRUE(identity->load().ok());
    ASSERT_TRUE(catalog->load().ok());
    ASSERT_TRUE(identity->bootstrap(path("control/bootstrap.key")).ok());
    tenant = identity->tenants().front().id;
    service = std::make_unique<control::SandboxService>(io.get_executor(), *db, clock, *catalog, *identity,
                                                        connect_ ? connect_ : runner.connector(),
                                                        guests.network(), options_);
    ASSERT_TRUE(service->load().ok());
    service->start();
  }
  void close() {
    run(service->stop());
    service.reset();
    catalog.reset();
    identity.reset();
    db.reset();
  }

  template <class T>
  static Task<> keep(Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }
  template <class T, class Then>
  static Task<> pass_on(Task<T> task, Then then) {
    then(co_await std::move(task));
  }
  static Task<> mark(Task<> task, bool* done) {
    co_await std::move(task);
    *done = true;
  }

  std::filesystem::path directory_;
  control::ServiceOptions options_;
  control::RunnerClient::Connect connect_;

 public:
  FakeRunner runner;
  FakeGuests guests;
  std::unique_ptr<store::Database> db;
  std::unique_ptr<control::Identity> identity;
  std::unique_ptr<control::Catalog> catalog;
  std::unique_ptr<control::SandboxService> service;
  std::string tenant;
};

}  // namespace atl::test
