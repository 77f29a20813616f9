// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/text.h"
#include "sys/files.h"
#include "sys/process.h"

namespace atl::sys {
namespace {

constexpr std::array<std::string_view, 4> kControllers = {"memory", "cpu", "cpuacct", "pids"};
constexpr std::uint32_t kCpuPeriodUs = 100'000;
constexpr useconds_t kFirstPauseUs = 100;
constexpr useconds_t kFirstLookUs = 10;  // a group of sleepers stands still in less than that
constexpr useconds_t kLongestPauseUs = 20'000;

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The number after `key` and a space at the start of a line; 0 when there is none.
std::uint64_t keyed_number(const std::string& text, std::string_view key) {
  for (std::string_view line : split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return parse_number<std::uint64_t>(trim(line.substr(key.size() + 1))).value_or(0);
    }
  }
  return 0;
}

std::string slurp(const std::string& path) { return read_file(path, 256 * 1024).value_or(""); }

std::uint64_t number_in(const std::string& path) {
  std::string text = slurp(path);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return parse_number<std::uint64_t>(text).value_or(0);
}

// Moves every process of `from` to `to`. KERNEL: a version 2 group with processes cannot give controllers to
// children ("no internal processes", cgroups(7)); the root group is exempt.
void move_processes(const std::string& from, const std::string& to) {
  std::string members = slurp(from + "/cgroup.procs");
  for (std::string_view pid : split(members, '\n')) {
    if (!pid.empty()) static_cast<void>(write_file(to + "/cgroup.procs", pid));
  }
}

std::uint32_t components(std::string_view path) {
  std::uint32_t count = 0;
  for (std::string_view part : split(path, '/')) count += part.empty() ? 0 : 1;
  return count;
}

constexpr char kDaemonsLeaf[] = "/daemons";
// True when one was removed.
bool remove_parts(const std::string& group) {
  bool removed = false;
  for (const std::string& entry : list_directory(group).value_or({}))
    removed = ::rmdir((group + "/" + entry).c_str()) == 0 || removed;  // files of the group are ENOTDIR
  return removed;
}

constexpr std::string_view kEnable = "+memory +cpu +pids";

// The directory below which controllers can be given out: the mount's root, or else our own group with its
// processes moved to a leaf.
Result<std::string> delegated_root(const std::string& mount) {
  if (write_file(mount + "/cgroup.subtree_control", kEnable).ok()) return mount;
  TRY(std::string own, read_file("/proc/self/cgroup"));
  std::string path;
  for (std::string_view line : split(own, '\n')) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  std::string base = path == "/" ? mount : mount + path;
  TRY_VOID(ensure_directory(base + kDaemonsLeaf, 0755));
  move_processes(base, base + kDaemonsLeaf);
  Result<void> enabled = write_file(base + "/cgroup.subtree_control", kEnable);
  if (!enabled.ok()) {
    return std::move(enabled).error().with_hint(
        "run atoll-runner with a delegated cgroup (systemd: Delegate=yes)");
  }
  return base;
}

}  // namespace

std::vector<Hierarchy> find_hierarchies(const std::string& mountinfo) {
  std::vector<Hierarchy> found;
  for (std::string_view line : split(mountinfo, '\n')) {
    std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::vector<std::string_view> left = split(line.substr(0, dash), ' ');
    std::vector<std::string_view> right = split(line.substr(dash + 3), ' ');
    if (left.size() < 6 || right.size() < 3) continue;
    if (right[0] == "cgroup2") {
      found.push_back({std::string(left[4]), {}, true});
      continue;
    }
    if (right[0] != "cgroup") continue;
    Hierarchy hierarchy{std::string(left[4]), {}, false};
    for (std::string_view option : split(right[2], ',')) {
      if (std::find(kControllers.begin(), kControllers.end(), option) != kControllers.end()) {
        hierarchy.controllers.emplace_back(option);
      }
    }
    if (!hierarchy.controllers.empty()) found.push_back(std::move(hierarchy));
  }
  return found;
}

// libnftables looks below /sys/fs/cgroup, wherever the tree is mounted.
std::string nft_group(const std::string& path) {
  constexpr std::string_view kBase = "/sys/fs/cgroup/";
  if (path.starts_with(kBase)) return path.substr(kBase.size());
  return path == "/sys/fs/cgroup" ? std::string(".") : "../../.." + path;
}

Cgroups::Cgroups(CgroupMode mode, std::vector<Hierarchy> hierarchies, std::string parent)
    : mode_(mode), hierarchies_(std::move(hierarchies)), parent_(std::move(parent)) {
  for (const Hierarchy& hierarchy : hierarchies_) {
    if (!hierarchy.unified) continue;
    has_kill_ = ::access((path(hierarchy, "") + "/cgroup.kill").c_str(), W_OK) == 0;
    has_freeze_ = ::access((path(hierarchy, "") + "/cgroup.freeze").c_str(), W_OK) == 0;
  }
}

Result<Cgroups> Cgroups::open(const std::string& parent) {
  TRY(std::string mounts, read_file("/proc/self/mountinfo", 1 << 20));
  std::vector<Hierarchy> hierarchies = find_hierarchies(mounts);
  std::erase_if(hierarchies, [](const Hierarchy& h) { return ::access(h.root.c_str(), W_OK) != 0; });
  bool limits_in_v1 = std::any_of(hierarchies.begin(), hierarchies.end(),
                                  [](const Hierarchy& h) { return contains(h.controllers, "memory"); });
  bool unified =
      std::any_of(hierarchies.begin(), hierarchies.end(), [](const Hierarchy& h) { return h.unified; });
  CgroupMode mode =
      limits_in_v1 ? (unified ? CgroupMode::kHybrid : CgroupMode::kVersion1) : CgroupMode::kVersion2;
  if (!limits_in_v1 && !unified) {
    return make_error(Code::kUnavailable, "no cgroup hierarchy is mounted")
        .with_word("isolation_unavailable")
        .with_hint("mount cgroup2 at /sys/fs/cgroup");
  }
  if (mode == CgroupMode::kVersion2) {
    std::erase_if(hierarchies, [](const Hierarchy& h) { return !h.unified; });
    std::string mount = hierarchies.front().root;
    TRY(hierarchies.front().root, delegated_root(mount));
    hierarchies.front().depth = components(hierarchies.front().root.substr(mount.size()));
    hierarchies.front().controllers = {"memory", "cpu", "pids"};
  }
  if (mode == CgroupMode::kHybrid) {
    // The unified tree counts CPU time without any controller, so that cpuacct is not needed for it.
    std::erase_if(hierarchies,
                  [](const Hierarchy& h) { return h.controllers == std::vector<std::string>{"cpuacct"}; });
  }
  for (const Hierarchy& hierarchy : hierarchies) {
    std::string group = hierarchy.root + "/" + parent;
    TRY_VOID(ensure_directory(group, 0755));
    if (mode == CgroupMode::kVersion2) TRY_VOID(write_file(group + "/cgroup.subtree_control", kEnable));
  }
  Cgroups cgroups(mode, std::move(hierarchies), parent);
  for (const char* controller : {"memory", "cpu", "pids"}) {
    if (cgroups.with(controller) == nullptr) {
      return make_error(Code::kUnavailable, "cgroup controller {} is not available", controller)
          .with_word("isolation_unavailable")
          .with_hint("enable the controller in the kernel");
    }
  }
  // Found by doing: a group with limits is made and removed again.
  TRY(CgroupHandles probe, cgroups.create("probe", {64 << 20, 1000, 16}));
  TRY_VOID(cgroups.remove("probe", Millis(0)));
  return cgroups;
}

std::string Cgroups::path(const Hierarchy& hierarchy, const std::string& name) const {
  std::string out = hierarchy.root + "/" + parent_;
  return name.empty() ? out : out + "/" + name;
}

const Hierarchy* Cgroups::with(const std::string& controller) const {
  for (const Hierarchy& hierarchy : hierarchies_) {
    if (contains(hierarchy.controllers, controller)) return &hierarchy;
  }
  return nullptr;
}

const Hierarchy* Cgroups::unified_tree() const {
  auto tree = std::find_if(hierarchies_.begin(), hierarchies_.end(),
                           [](const Hierarchy& hierarchy) { return hierarchy.unified; });
  return tree == hierarchies_.end() ? nullptr : &*tree;
}

std::string Cgroups::file(const std::string& controller, const std::string& name, const std::string& v1,
                          const std::string& v2) const {
  const Hierarchy* hierarchy = with(controller);
  return path(*hierarchy, name) + "/" + (hierarchy->unified ? v2 : v1);
}

// cpuacct.usage (nanoseconds) or, in a unified tree, cpu.stat, which needs no controller.
std::string Cgroups::cpu_usage_file(const std::string& name) const {
  if (const Hierarchy* hierarchy = with("cpuacct")) return path(*hierarchy, name) + "/cpuacct.usage";
  for (const Hierarchy& hierarchy : hierarchies_) {
    if (hierarchy.unified) return path(hierarchy, name) + "/cpu.stat";
  }
  return {};
}

Result<void> Cgroups::set_limits(const std::string& name, const CgroupLimits& limits) const {
  std::string memory = fmt::format("{}", limits.memory_bytes);
  TRY_VOID(write_file(file("memory", name, "memory.limit_in_bytes", "memory.max"), memory));
  // Without swap, reaching the limit is an outcome that can be reported, not a slow death. Both files are
  // missing on kernels without swap accounting.
  std::string swap = file("memory", name, "memory.memsw.limit_in_bytes", "memory.swap.max");
  if (::access(swap.c_str(), W_OK) == 0) {
    TRY_VOID(write_file(swap, mode_ == CgroupMode::kVersion2 ? "0" : memory));
  }
  std::uint64_t quota = static_cast<std::uint64_t>(limits.cpu_millis) * kCpuPeriodUs / 1000;
  if (mode_ == CgroupMode::kVersion2) {
    TRY_VOID(write_file(file("cpu", name, "", "cpu.max"), fmt::format("{} {}", quota, kCpuPeriodUs)));
  } else {
    TRY_VOID(write_file(file("cpu", name, "cpu.cfs_quota_us", ""), fmt::format("{}", quota)));
  }
  return write_file(file("pids", name, "pids.max", "pids.max"), fmt::format("{}", limits.processes));
}

Result<CgroupHandles> Cgroups::create(const std::string& name, const CgroupLimits& limits) const {
  CgroupHandles handles;
  for (const Hierarchy& hierarchy : hierarchies_) {
    std::string group = path(hierarchy, name);
    TRY_VOID(ensure_directory(group, 0755));
    if (hierarchy.unified) {
      TRY(handles.unified, open_file(group, O_RDONLY | O_DIRECTORY));
    } else {
      TRY(Fd tasks, open_file(group + "/tasks", O_WRONLY));
      handles.tasks.push_back(std::move(tasks));
    }
  }
  TRY_VOID(set_limits(name, limits));
  TRY(handles.memory_events,
      open_file(file("memory", name, "memory.oom_control", "memory.events"), O_RDONLY));
  TRY(handles.memory_usage,
      open_file(file("memory", name, "memory.usage_in_bytes", "memory.current"), O_RDONLY));
  TRY(handles.memory_stat, open_file(file("memory", name, "memory.stat", "memory.stat"), O_RDONLY));
  TRY(handles.cpu_usage, open_file(cpu_usage_file(name), O_RDONLY));
  return handles;
}

void Cgroups::kill(const std::string& name) const {
  for (const Hierarchy& hierarchy : hierarchies_) {
    std::string group = path(hierarchy, name);
    if (hierarchy.unified && has_kill_) {
      static_cast<void>(write_file(group + "/cgroup.kill", "1"));
      continue;
    }
    // One by one; a member that forks meanwhile is caught by the next call, or dies with its PID 1.
    std::string members = slurp(group + "/cgroup.procs");
    for (std::string_view line : split(members, '\n')) {
      std::optional<pid_t> pid = parse_number<pid_t>(line);
      if (pid && *pid > 0) ::kill(*pid, SIGKILL);
    }
  }
}

bool Cgroups::empty(const std::string& name) const {
  for (const Hierarchy& hierarchy : hierarchies_) {
    std::string group = path(hierarchy, name);
    if (hierarchy.unified) {
      if (keyed_number(slurp(group + "/cgroup.events"), "populated") != 0) return false;
    } else if (!slurp(group + "/tasks").empty()) {
      return false;
    }
  }
  return true;
}

bool Cgroups::wait_empty(const std::string& name, Millis timeout) const {
  Steady::time_point until = Steady::now() + timeout;
  useconds_t pause = kFirstPauseUs;
  while (!empty(name)) {
    if (Steady::now() >= until) return false;
    // cgroup.events could be polled for, but the version 1 task lists cannot.
    ::usleep(pause);
    pause = std::min(pause * 2, kLongestPauseUs);
  }
  return true;
}

Result<void> Cgroups::freeze(const std::string& name, Millis timeout) const {
  return set_frozen(name, true, timeout);
}

Result<void> Cgroups::thaw(const std::string& name, Millis timeout) const {
  return set_frozen(name, false, timeout);
}

// KERNEL: until Linux 6.14 the thread that KVM has for each machine, "kvm-nx-lpage-recovery", joins the
// groups of whoever made the machine, and a group with a thread of the kernel never tells that it is frozen
// (commit d96c77bd4eeb). It goes where nothing is limited: to the root, or among the daemons
// (delegated_root). After the freezing has begun it would be too late.
void Cgroups::release_kernel_threads(const std::string& name) const {
  for (const Hierarchy& hierarchy : hierarchies_) {
    if (!hierarchy.unified) continue;
    std::string leaf = hierarchy.root + kDaemonsLeaf;
    if (::access(leaf.c_str(), F_OK) != 0) leaf = hierarchy.root;
    std::string members = slurp(path(hierarchy, name) + "/cgroup.procs");
    for (std::string_view line : split(members, '\n')) {
      std::optional<pid_t> pid = parse_number<pid_t>(line);
      if (pid && *pid > 0 && is_kernel_thread(*pid))
        static_cast<void>(write_file(leaf + "/cgroup.procs", line));
    }
  }
}

// KERNEL: the version 1 freezer also stops SIGKILL; that of the unified tree does not, and it tells in
// cgroup.events when all members have stopped (cgroup-v2.rst, "cgroup.freeze").
Result<void> Cgroups::set_frozen(const std::string& name, bool frozen, Millis timeout) const {
  const Hierarchy* tree = unified_tree();
  if (tree == nullptr || !has_freeze_) {
    return make_error(Code::kUnsupported, "this kernel cannot freeze a cgroup")
        .with_word("capability_unsupported")
        .with_hint("mount cgroup2, of Linux 5.2 or newer");
  }
  std::string group = path(*tree, name);
  TRY_VOID(write_file(group + "/cgroup.freeze", frozen ? "1" : "0"));
  Steady::time_point until = Steady::now() + timeout;
  useconds_t pause = kFirstLookUs;
  while ((keyed_number(slurp(group + "/cgroup.events"), "frozen") != 0) != frozen) {
    if (Steady::now() >= until) {
      return make_error(Code::kDeadline, "the processes of {} did not {} within {} ms", group,
                        frozen ? "stand still" : "go on", timeout.count());
    }
    ::usleep(pause);
    pause = std::min(pause * 2, kLongestPauseUs);
  }
  return success();
}

bool Cgroups::has_reclaim() const {
  std::string needed = file("memory", "", "memory.memsw.limit_in_bytes", "memory.reclaim");
  return ::access(needed.c_str(), W_OK) == 0;
}

// KERNEL: version 2 has a file for it (cgroup-v2.rst, "memory.reclaim"), whose write fails with EAGAIN when
// less went; the limit of swap, which is 0 (set_limits), is lifted meanwhile. On version 1 a limit below the
// usage makes the kernel take what is above it, EBUSY when less went (cgroup-v1/memory.rst); that of memory
// and swap together stays, since it counts the same before and after.
Result<std::uint64_t> Cgroups::reclaim(const std::string& name, std::uint64_t bytes) const {
  std::string usage = file("memory", name, "memory.usage_in_bytes", "memory.current");
  std::uint64_t before = number_in(usage), wanted = std::min(bytes, before);
  if (wanted == 0) return std::uint64_t{0};
  Result<void> asked = success();
  if (mode_ == CgroupMode::kVersion2) {
    TRY_VOID(write_file(file("memory", name, "", "memory.swap.max"), "max"));
    asked = write_file(file("memory", name, "", "memory.reclaim"), fmt::format("{}", wanted));
  } else {
    asked = write_file(file("memory", name, "memory.limit_in_bytes", ""), fmt::format("{}", before - wanted));
  }
  bool less = !asked.ok() && (asked.error().sys_errno() == EAGAIN || asked.error().sys_errno() == EBUSY);
  if (!asked.ok() && !less) return std::move(asked).error();
  std::uint64_t after = number_in(usage);
  return before > after ? before - after : std::uint64_t{0};
}

Result<void> Cgroups::end_reclaim(const std::string& name) const {
  if (!has_reclaim()) return success();
  if (mode_ == CgroupMode::kVersion2) {
    std::string swap = file("memory", name, "", "memory.swap.max");
    return ::access(swap.c_str(), W_OK) == 0 ? write_file(swap, "0") : success();
  }
  TRY(std::string whole, read_file(file("memory", name, "memory.memsw.limit_in_bytes", "")));
  return write_file(file("memory", name, "memory.limit_in_bytes", ""), whole);
}

// KERNEL: moving a process from one group to another takes the right to write cgroup.procs of both, and of
// the group that both are in (cgroup-v2.rst, "Delegation Containment"), so that nothing leaves the group of
// `name`. No controller is given out to parts, hence the group above may hold processes itself.
Result<void> Cgroups::create_part(const std::string& name, const std::string& part,
                                  std::uint32_t owner) const {
  const Hierarchy* tree = unified_tree();
  if (tree == nullptr) return make_error(Code::kUnsupported, "this host has no unified cgroup tree");
  std::string group = path(*tree, name);
  TRY_VOID(ensure_directory(group + "/" + part, 0755));
  for (const std::string& file : {group + "/" + part + "/cgroup.procs", group + "/cgroup.procs"}) {
    if (::chown(file.c_str(), owner, static_cast<gid_t>(-1)) != 0)
      return Error::from_errno(errno, fmt::format("give {} away", file));
  }
  return success();
}

Result<Cgroups::Place> Cgroups::place_of(const std::string& name, const std::string& part) const {
  const Hierarchy* tree = unified_tree();
  if (tree == nullptr) return make_error(Code::kUnsupported, "this host has no unified cgroup tree");
  return Place{nft_group(path(*tree, name) + "/" + part), tree->depth + components(parent_) + 2};
}

Result<void> Cgroups::remove(const std::string& name, Millis timeout) const {
  Steady::time_point until = Steady::now() + timeout;
  for (const Hierarchy& hierarchy : hierarchies_) {
    std::string group = path(hierarchy, name);
    for (useconds_t pause = kFirstPauseUs; ::rmdir(group.c_str()) != 0 && errno != ENOENT;) {
      // KERNEL: EBUSY until the last task is really gone, which is a little after it was reaped.
      int error = errno;
      if (error == EBUSY && hierarchy.unified && remove_parts(group)) continue;
      if (error != EBUSY || Steady::now() >= until)
        return Error::from_errno(error, fmt::format("remove {}", group));
      ::usleep(pause);
      pause = std::min(pause * 2, kLongestPauseUs);
    }
  }
  return success();
}

std::uint32_t Cgroups::oom_kills(const std::string& name) const {
  std::string text = slurp(file("memory", name, "memory.oom_control", "memory.events"));
  return static_cast<std::uint32_t>(keyed_number(text, "oom_kill"));
}

std::optional<std::uint64_t> Cgroups::cpu_us(const std::string& name) const {
  std::string file = cpu_usage_file(name), text = slurp(file);
  if (text.empty()) return std::nullopt;
  if (file.ends_with("cpu.stat")) return keyed_number(text, "usage_usec");
  return parse_number<std::uint64_t>(trim(text.substr(0, text.find('\n')))).value_or(0) / 1000;
}

CgroupUsage Cgroups::usage(const std::string& name) const {
  CgroupUsage usage;
  usage.cpu_us = cpu_us(name).value_or(0);
  std::uint64_t total = number_in(file("memory", name, "memory.usage_in_bytes", "memory.current"));
  std::string stat = slurp(file("memory", name, "memory.stat", "memory.stat"));
  usage.memory_cache = keyed_number(stat, mode_ == CgroupMode::kVersion2 ? "file" : "cache");
  usage.memory_used = total > usage.memory_cache ? total - usage.memory_cache : 0;
  usage.memory_limit = number_in(file("memory", name, "memory.limit_in_bytes", "memory.max"));
  usage.processes = static_cast<std::uint32_t>(number_in(file("pids", name, "pids.current", "pids.current")));
  usage.oom_kills = oom_kills(name);
  return usage;
}

std::vector<std::string> Cgroups::list() const {
  std::set<std::string> names;
  for (const Hierarchy& hierarchy : hierarchies_) {
    std::string parent = path(hierarchy, "");
    for (std::string& entry : list_directory(parent).value_or({})) {
      struct stat info{};
      if (::stat((parent + "/" + entry).c_str(), &info) == 0 && S_ISDIR(info.st_mode))
        names.insert(std::move(entry));
    }
  }
  return {names.begin(), names.end()};
}

void Cgroups::remove_parent() const {
  for (const Hierarchy& hierarchy : hierarchies_) ::rmdir(path(hierarchy, "").c_str());
}

}  // namespace atl::sys
