// SPDX-License-Identifier: Apache-2.0
#include "runner/self_tests.h"

#include "base/log.h"
#include "base/text.h"
#include "sys/files.h"

namespace atl::runner {
namespace {

constexpr Millis kMoment{500}, kKillAgain{20};
constexpr std::size_t kMaxOutcome = 4096;
constexpr int kTries = 3;

Result<std::string> head_of(const std::string& subject) {
  TRY(std::string boot, sys::read_file("/proc/sys/kernel/random/boot_id"));
  return fmt::format("{}\n{}\n", trim(boot), subject);
}

}  // namespace

SelfTests::SelfTests(Service& service, const sys::Cgroups& cgroups, const model::HostFeatures& host,
                     std::vector<SelfTest> tests, std::function<void()> changed)
    : service_(service),
      cgroups_(cgroups),
      host_(host),
      tests_(std::move(tests)),
      changed_(std::move(changed)) {
  for (const SelfTest& test : tests_) service_.begin_test(test.tier);
  thread_ = std::thread([this] { run(); });
}

// A test starts processes at any moment until it has ended, hence again and again.
SelfTests::~SelfTests() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  woken_.notify_all();
  while (!done_) {
    std::string sandbox = sandbox_;
    lock.unlock();
    if (!sandbox.empty()) cgroups_.kill(sandbox);
    lock.lock();
    woken_.wait_for(lock, kKillAgain, [this] { return done_; });
  }
  lock.unlock();
  thread_.join();
}

bool SelfTests::wait_a_moment() {
  std::unique_lock lock(mutex_);
  return !woken_.wait_for(lock, kMoment, [this] { return stop_; });
}

// On a full host it waits until something has ended; on a busy one a tier that was too slow has two more
// tries, since the outcome holds for as long as the runner lives.
Result<void> SelfTests::repeat(const SelfTest& test) {
  Result<void> outcome = test.run(host_);
  for (int slow = 0; !outcome.ok();) {
    bool full = outcome.error().word() == "host_capacity";
    bool too_slow = outcome.error().code() == Code::kDeadline && ++slow < kTries;
    if ((!full && !too_slow) || !wait_a_moment()) break;
    outcome = test.run(host_);
  }
  return outcome;
}

void SelfTests::run() {
  for (const SelfTest& test : tests_) {
    {
      std::lock_guard lock(mutex_);
      if (stop_) break;
      sandbox_ = test.sandbox;
    }
    Result<void> outcome = repeat(test);
    {
      std::lock_guard lock(mutex_);
      sandbox_.clear();
      if (stop_) break;  // broken off: that says nothing
    }
    auto tier = model::tier_name(test.tier);
    if (outcome.ok()) log::info("tier is usable", {{"tier", tier}});
    if (!outcome.ok()) log::info("tier is not usable", {{"tier", tier}, {"why", outcome.error().message()}});
    service_.end_test(test.tier, outcome, host_);
    changed_();
  }
  std::lock_guard lock(mutex_);
  done_ = true;
  woken_.notify_all();
}

// What the service makes of it.
Result<Driver*> Service::driver_to_start(std::uint8_t tier) const {
  Driver* driver = driver_of(tier);
  if (driver != nullptr) TRY_VOID(require_tested(driver->tier()));
  std::lock_guard lock(host_mutex_);
  auto obstacle = obstacles_.find(static_cast<model::Tier>(tier));
  if (driver != nullptr && obstacle == obstacles_.end()) return driver;
  std::string why = obstacle == obstacles_.end() ? "this runner does not offer it" : obstacle->second;
  return make_error(Code::kUnavailable, "tier {} is not available on this host: {}", tier, why)
      .with_word("isolation_unavailable")
      .with_hint("atoll doctor shows which tiers are usable and why");
}

Result<void> Service::require_tested(model::Tier tier) const {
  std::lock_guard lock(host_mutex_);
  if (!tested_.contains(tier)) return success();
  return make_error(Code::kUnavailable, "tier {} is still being tested", model::tier_name(tier))
      .with_word("isolation_being_tested")
      .with_hint("try again in a moment");
}

void Service::begin_test(model::Tier tier) {
  std::lock_guard lock(host_mutex_);
  tested_.insert(tier);
}

void Service::end_test(model::Tier tier, const Result<void>& outcome, const model::HostFeatures& host) {
  std::lock_guard lock(host_mutex_);
  tested_.erase(tier);
  features_ = host;
  if (!outcome.ok()) obstacles_[tier] = outcome.error().message();
}

void take_back(const sys::Cgroups& cgroups, DiskPool& disks, SlotPool& slots, const std::string& sandbox,
               std::uint32_t slot) {
  Result<void> removed = cgroups.remove(sandbox, kStopBound);
  if (!removed.ok()) {
    log::warn("what a self-test left is not gone yet", {{"error", removed.error().message()}});
    return;
  }
  disks.remove(sandbox);
  slots.release(slot);
}

std::optional<std::string> recall_outcome(const std::string& path, const std::string& subject) {
  Result<std::string> head = head_of(subject);
  Result<std::string> kept = sys::read_file(path, kMaxOutcome);
  if (!head.ok() || !kept.ok() || !kept->starts_with(*head)) return std::nullopt;
  return kept->substr(head->size());
}

void keep_outcome(const std::string& path, const std::string& subject, const std::string& outcome) {
  Result<std::string> head = head_of(subject);
  Result<void> kept =
      head.ok() ? sys::replace_file(path, *head + outcome, 0600) : Result<void>(std::move(head).error());
  if (!kept.ok()) log::warn("a self-test will be repeated", {{"error", kept.error().message()}});
}

}  // namespace atl::runner
