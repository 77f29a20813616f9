// SPDX-License-Identifier: Apache-2.0
//
// Resource use of running sandboxes: sampled together, kept in memory in a ring per sandbox.
#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr Steady::duration kInterval = std::chrono::seconds(5);
constexpr std::size_t kParallel = 16;  // requests to the runner at a time

}  // namespace

Task<> SandboxService::sample_one(LivePtr live) {
  auto stats = co_await runner_.stats(live->row.id, live->row.generation);
  if (!stats || live->ending) co_return;
  auto now = clock_.steady_now();
  MetricSample sample;
  sample.at = clock_.now();
  if (live->last_cpu_at && now > *live->last_cpu_at && stats->cpu_us >= live->last_cpu_us) {
    auto passed = std::chrono::duration_cast<std::chrono::microseconds>(now - *live->last_cpu_at).count();
    if (passed > 0)
      sample.cpu_pct =
          100.0 * static_cast<double>(stats->cpu_us - live->last_cpu_us) / static_cast<double>(passed);
  }
  live->last_cpu_at = now;
  live->last_cpu_us = stats->cpu_us;
  // Its own limit, not that of its cgroup, which has room for a virtual machine's own needs too.
  sample.memory_total = live->row.limits.memory_bytes;
  sample.memory_used = std::min(stats->memory_used, sample.memory_total);
  sample.memory_cache = stats->memory_cache;
  sample.disk_used = stats->disk_used;
  sample.disk_total = stats->disk_total;
  live->metrics.push_back(sample);
  if (live->metrics.size() > kMaxSamples) live->metrics.pop_front();
}

Task<> SandboxService::sample_metrics() {
  std::vector<LivePtr> all;
  for (const auto& [tenant, listing] : listed_) {
    for (const auto& [key, live] : listing.rows) {
      if (live->row.state == model::State::kRunning) all.push_back(live);
    }
  }
  for (std::size_t from = 0; from < all.size(); from += kParallel) {
    async::Scope samples(executor_);
    for (std::size_t i = from; i < std::min(from + kParallel, all.size()); ++i) {
      samples.spawn("sample", sample_one(all[i]));
    }
    co_await samples.join();
  }
}

Task<> SandboxService::metrics_loop() {
  co_await async::asio::this_coro::throw_if_cancelled(false);
  while (!stopping_) {
    co_await async::sleep_for(kInterval);
    if (!stopping_ && runner_.connected()) co_await sample_metrics();
  }
}

}  // namespace atl::control
