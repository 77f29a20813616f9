// SPDX-License-Identifier: Apache-2.0
//
// Controllers of cgroups: a group is made, limited, and taken away again.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "sys/cgroup.h"
#include "sys/features/probes.h"
#include "sys/files.h"

namespace atl::sys::probe {
namespace {

constexpr int kRemovals = 100;
constexpr useconds_t kRemovalPauseUs = 5'000;

Result<std::vector<Hierarchy>> hierarchies() {
  TRY(std::string mounts, read_file("/proc/self/mountinfo", 1 << 20));
  return find_hierarchies(mounts);
}

// Makes a group of its own in `hierarchy`, and removes it after the attempt.
int in_group(const Hierarchy& hierarchy, const InGroup& attempt) {
  std::string group = fmt::format("{}/atoll-probe-{}", hierarchy.root, ::getpid());
  if (auto made = ensure_directory(group, 0755); !made.ok()) return number_of(made);
  int number = number_of(attempt(group, hierarchy.depth + 1));
  // KERNEL: EBUSY until a process that was in it is really gone, which is a little after it was reaped.
  for (int left = kRemovals; ::rmdir(group.c_str()) != 0 && errno == EBUSY && left > 0; --left)
    ::usleep(kRemovalPauseUs);
  return number;
}

// `v1` and `v2`: a file of the controller, and what is written into it.
struct Limit {
  const char* controller;
  const char* v1;
  const char* v1_text;
  const char* v2;
  const char* v2_text;
};

// In the unified tree a controller must be given out by the groups above. KERNEL: those cannot while they
// hold processes, so that only the runner tries that, which moves itself first; here the controller must be
// offered.
int in_unified(const Hierarchy& tree, const Limit& limit) {
  auto offered = read_file(tree.root + "/cgroup.controllers");
  if (!offered.ok()) return number_of(offered);
  std::string list = " " + *offered;
  std::replace(list.begin(), list.end(), '\n', ' ');
  if (list.find(fmt::format(" {} ", limit.controller)) == std::string::npos) return ENOENT;
  return in_group(tree, [&limit](const std::string& group, std::uint32_t) -> Result<void> {
    std::string path = fmt::format("{}/{}", group, limit.v2);
    if (::access(path.c_str(), F_OK) != 0) return success();
    return write_file(path, limit.v2_text);
  });
}

int limited(const Limit& limit) {
  auto all = hierarchies();
  if (!all.ok()) return number_of(all);
  for (const Hierarchy& each : *all) {
    if (std::find(each.controllers.begin(), each.controllers.end(), limit.controller) ==
        each.controllers.end())
      continue;
    return in_group(each, [&limit](const std::string& group, std::uint32_t) {
      return write_file(fmt::format("{}/{}", group, limit.v1), limit.v1_text);
    });
  }
  auto tree = std::find_if(all->begin(), all->end(), [](const Hierarchy& each) { return each.unified; });
  return tree == all->end() ? ENOENT : in_unified(*tree, limit);
}

}  // namespace

int in_tree(const InGroup& attempt) {
  auto all = hierarchies();
  if (!all.ok()) return number_of(all);
  auto tree = std::find_if(all->begin(), all->end(), [](const Hierarchy& each) { return each.unified; });
  return tree == all->end() ? ENOENT : in_group(*tree, attempt);
}

int cgroup_tree() {
  return in_tree([](const std::string&, std::uint32_t) { return success(); });
}

int cgroup_memory() {
  return limited({"memory", "memory.limit_in_bytes", "67108864", "memory.max", "67108864"});
}
int cgroup_cpu() { return limited({"cpu", "cpu.cfs_quota_us", "100000", "cpu.max", "100000 100000"}); }
int cgroup_pids() { return limited({"pids", "pids.max", "64", "pids.max", "64"}); }

int cgroup_freeze() {
  return in_tree([](const std::string& group, std::uint32_t) -> Result<void> {
    TRY_VOID(write_file(group + "/cgroup.freeze", "1"));
    return write_file(group + "/cgroup.freeze", "0");
  });
}

int cgroup_kill() {
  return in_tree(
      [](const std::string& group, std::uint32_t) { return write_file(group + "/cgroup.kill", "1"); });
}

int swap_limit() { return limited({"memory", "memory.memsw.limit_in_bytes", "-1", "memory.swap.max", "0"}); }

}  // namespace atl::sys::probe
