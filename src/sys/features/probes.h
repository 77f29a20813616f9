// SPDX-License-Identifier: Apache-2.0
//
// The probes by subject; not for others than features.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace atl::sys::probe {

// The errno of a result: 0 for success, EIO where an error has none.
template <class T>
int number_of(const Result<T>& result) {
  if (result.ok()) return 0;
  int number = result.error().sys_errno();
  return number != 0 ? number : 5;  // EIO
}
// errno when a call gave a negative result, else 0.
int outcome(long result);

// Loads packet rules into the network namespace of the moment; 0 or an errno.
int load_rules(const std::string& rules);

// calls.cc
int user_namespaces();
int mount_namespaces();
int pid_namespaces();
int network_namespaces();
int ipc_namespaces();
int uts_namespaces();
int cgroup_namespaces();
int setns();
int clone3();
int pidfd();
int close_range();
int openat2();
int execveat();
int keyrings();
int memfd_sealing();
int seccomp();
int landlock();

// mounts.cc
int mount_api();
int pivot_root();
int mount_setattr();
int overlay();
int overlay_userxattr();
int erofs();
int ext4();
int loop_devices();
int idmapped_mounts();

// groups.cc
// Makes a group of the probe's own in the unified tree, at this level below its root, and removes it after
// the attempt. The errno of the attempt; ENOENT without such a tree.
using InGroup = std::function<Result<void>(const std::string& group, std::uint32_t level)>;
int in_tree(const InGroup& attempt);
int cgroup_tree();
int cgroup_memory();
int cgroup_cpu();
int cgroup_pids();
int cgroup_freeze();
int cgroup_kill();
int swap_limit();

// network.cc
int nftables();
int conntrack();
int nat();
int veth();
int tun();

// labels.cc
int process_labels();

// machine.cc
int pressure();
int kvm();

}  // namespace atl::sys::probe
