// SPDX-License-Identifier: Apache-2.0
//
// Tests of tiers that may take long, beside the service: until one has ended, nothing of its tier is started,
// and everything else is served.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runner/service.h"
#include "sys/cgroup.h"

namespace atl::runner {

struct SelfTest {
  model::Tier tier;
  std::string sandbox;  // the one that it starts; ended with all its processes when the runner stops
  // Blocks. Notes in `host` what it has shown. An error is why the tier cannot be used. One with the word
  // host_capacity says nothing of the tier, and the test is repeated; kDeadline may, and it is repeated
  // twice.
  std::function<Result<void>(model::HostFeatures& host)> run;
};

// One thread, one test at a time, in their order.
class SelfTests {
 public:
  // Tells the service at once that these tiers are being tested; `changed` is called, on the thread, after
  // each outcome that the service has been told.
  SelfTests(Service& service, const sys::Cgroups& cgroups, const model::HostFeatures& host,
            std::vector<SelfTest> tests, std::function<void()> changed);
  // Breaks off what runs and waits for it; a tier whose test has not ended stays untested.
  ~SelfTests();

 private:
  void run();
  Result<void> repeat(const SelfTest& test);
  bool wait_a_moment();

  Service& service_;
  const sys::Cgroups& cgroups_;
  model::HostFeatures host_;
  const std::vector<SelfTest> tests_;
  const std::function<void()> changed_;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool stop_ = false, done_ = false;
  std::string sandbox_;  // of the test that runs
  std::thread thread_;
};

// Takes back what a test sandbox had. What still has processes keeps its slot and its disk until the next
// runner sweeps it: nobody else may have them. Of the tier that says nothing.
void take_back(const sys::Cgroups& cgroups, DiskPool& disks, SlotPool& slots, const std::string& sandbox,
               std::uint32_t slot);

// The outcome of a test, kept in the file `path`: valid for the same subject, until this machine boots again.
// nullopt: there is none.
std::optional<std::string> recall_outcome(const std::string& path, const std::string& subject);
// A failure is told to the log: then the test is repeated at the next start.
void keep_outcome(const std::string& path, const std::string& subject, const std::string& outcome);

}  // namespace atl::runner
