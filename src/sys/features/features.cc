// SPDX-License-Identifier: Apache-2.0
#include "sys/features/features.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/text.h"
#include "sys/features/probes.h"

namespace atl::sys {
namespace {

constexpr FeatureProbe kProbes[] = {
    {"mount_api", probe::mount_api},
    {"user_namespaces", probe::user_namespaces},
    {"mount_namespaces", probe::mount_namespaces},
    {"pid_namespaces", probe::pid_namespaces},
    {"network_namespaces", probe::network_namespaces},
    {"ipc_namespaces", probe::ipc_namespaces},
    {"uts_namespaces", probe::uts_namespaces},
    {"cgroup_namespaces", probe::cgroup_namespaces},
    {"setns", probe::setns},
    {"pivot_root", probe::pivot_root},
    {"clone3", probe::clone3},
    {"pidfd", probe::pidfd},
    {"close_range", probe::close_range},
    {"openat2", probe::openat2},
    {"execveat", probe::execveat},
    {"keyrings", probe::keyrings},
    {"memfd_sealing", probe::memfd_sealing},
    {"seccomp", probe::seccomp},
    {"landlock", probe::landlock},
    {"mount_setattr", probe::mount_setattr},
    {"overlay", probe::overlay},
    {"overlay_userxattr", probe::overlay_userxattr},
    {"erofs", probe::erofs},
    {"ext4", probe::ext4},
    {"loop_devices", probe::loop_devices},
    {"idmapped_mounts", probe::idmapped_mounts},
    {"cgroup_tree", probe::cgroup_tree},
    {"cgroup_memory", probe::cgroup_memory},
    {"cgroup_cpu", probe::cgroup_cpu},
    {"cgroup_pids", probe::cgroup_pids},
    {"cgroup_freeze", probe::cgroup_freeze},
    {"cgroup_kill", probe::cgroup_kill},
    {"swap_limit", probe::swap_limit},
    {"nftables", probe::nftables},
    {"conntrack", probe::conntrack},
    {"nat", probe::nat},
    {"veth", probe::veth},
    {"tun", probe::tun},
    {"process_labels", probe::process_labels},
    {"pressure", probe::pressure},
    {"kvm", probe::kvm},
};

}  // namespace

int probe::outcome(long result) { return result < 0 ? errno : 0; }

std::span<const FeatureProbe> feature_probes() { return kProbes; }

std::optional<int> try_feature(std::string_view name) {
  const auto* found = std::find_if(std::begin(kProbes), std::end(kProbes),
                                   [name](const FeatureProbe& row) { return row.name == name; });
  if (found == std::end(kProbes)) return std::nullopt;
  pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(kProbeBoundSeconds);
    int number = found->attempt();
    ::_exit(number >= 0 && number < 128 ? number : EIO);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return WTERMSIG(status) == SIGALRM ? ETIMEDOUT : EPERM;  // killed: by a filter, most likely
}

std::optional<std::string> find_program(std::string_view name, const std::string& given) {
  if (!given.empty()) return ::access(given.c_str(), X_OK) == 0 ? std::optional(given) : std::nullopt;
  const char* path = std::getenv("PATH");
  for (std::string_view directory : split(path != nullptr ? path : "/usr/local/bin:/usr/bin", ':')) {
    std::string candidate = fmt::format("{}/{}", directory, name);
    if (!directory.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

}  // namespace atl::sys
