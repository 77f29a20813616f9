// SPDX-License-Identifier: Apache-2.0
#include "model/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace atl::model {
namespace {

constexpr Tiers kNone = 0, kC = kContainerTier, kG = kGvisorTier, kM = kMicrovmTier;
constexpr Tiers kCG = kC | kG, kAll = kC | kG | kM;

using F = Feature;
constexpr FeatureInfo kTable[] = {
    {F::kMountApi, "mount_api", "descriptor-based mounts", kAll, kNone, false,
     "Linux 5.12 or newer is needed"},
    {F::kUserNamespaces, "user_namespaces", "user namespaces", kAll, kNone, false,
     "allow them: sysctl user.max_user_namespaces=65536 (in a container: run it privileged)"},
    {F::kMountNamespaces, "mount_namespaces", "mount namespaces", kAll, kNone, false,
     "allow them: sysctl user.max_mnt_namespaces=65536"},
    {F::kPidNamespaces, "pid_namespaces", "pid namespaces", kAll, kNone, false,
     "the kernel needs CONFIG_PID_NS; sysctl user.max_pid_namespaces=65536"},
    {F::kNetworkNamespaces, "network_namespaces", "network namespaces", kAll, kNone, false,
     "the kernel needs CONFIG_NET_NS; sysctl user.max_net_namespaces=65536"},
    {F::kIpcNamespaces, "ipc_namespaces", "ipc namespaces", kAll, kNone, false,
     "the kernel needs CONFIG_IPC_NS; sysctl user.max_ipc_namespaces=65536"},
    {F::kUtsNamespaces, "uts_namespaces", "uts namespaces", kAll, kNone, false,
     "the kernel needs CONFIG_UTS_NS; sysctl user.max_uts_namespaces=65536"},
    {F::kCgroupNamespaces, "cgroup_namespaces", "cgroup namespaces", kAll, kNone, false,
     "the kernel needs CONFIG_CGROUPS; sysctl user.max_cgroup_namespaces=65536"},
    {F::kSetns, "setns", "entering namespaces", kAll, kNone, false,
     "something filters setns(2): in a container, run it privileged"},
    {F::kPivotRoot, "pivot_root", "pivot_root", kAll, kNone, false,
     "something filters pivot_root(2): in a container, run it privileged"},
    {F::kClone3, "clone3", "clone3", kAll, kNone, false, "Linux 5.7 or newer is needed"},
    {F::kPidfd, "pidfd", "process descriptors", kAll, kNone, false, "Linux 5.3 or newer is needed"},
    {F::kCloseRange, "close_range", "close_range", kAll, kNone, false, "Linux 5.11 or newer is needed"},
    {F::kOpenat2, "openat2", "openat2", kAll, kNone, false, "Linux 5.6 or newer is needed"},
    {F::kExecveat, "execveat", "execveat", kAll, kNone, false,
     "something filters execveat(2): in a container, run it privileged"},
    {F::kKeyrings, "keyrings", "session keyrings", kAll, kNone, false,
     "the kernel needs CONFIG_KEYS, and nothing may filter keyctl(2)"},
    {F::kMemfdSealing, "memfd_sealing", "sealed memory files", kAll, kNone, false,
     "the kernel needs CONFIG_MEMFD_CREATE"},
    {F::kSeccomp, "seccomp", "system call filters", kAll, kNone, false,
     "the kernel needs CONFIG_SECCOMP_FILTER"},
    {F::kMountSetattr, "mount_setattr", "mount_setattr", kAll, kNone, false, "Linux 5.12 or newer is needed"},
    {F::kOverlay, "overlay", "overlay file system", kCG, kNone, false,
     "load it: modprobe overlay; the kernel needs CONFIG_OVERLAY_FS"},
    {F::kOverlayUserxattr, "overlay_userxattr", "overlay in a user namespace", kCG, kNone, false,
     "Linux 5.11 or newer is needed"},
    {F::kErofs, "erofs", "erofs file system", kAll, kNone, false,
     "load it: modprobe erofs; the kernel needs CONFIG_EROFS_FS"},
    {F::kExt4, "ext4", "ext4 file system", kAll, kNone, false,
     "load it: modprobe ext4; the kernel needs CONFIG_EXT4_FS"},
    {F::kLoopDevices, "loop_devices", "loop devices", kAll, kNone, false,
     "load it: modprobe loop (in a container: give it /dev/loop-control and /dev/loop*)"},
    {F::kIdmappedMounts, "idmapped_mounts", "idmapped mounts", kCG, kNone, false,
     "Linux 5.19 or newer is needed, for erofs with mapped owners"},
    {F::kCgroupMemory, "cgroup_memory", "memory limits of cgroups", kAll, kNone, false,
     "enable the memory controller (cgroup v2: in cgroup.subtree_control; kernel parameter "
     "cgroup_enable=memory)"},
    {F::kCgroupCpu, "cgroup_cpu", "CPU limits of cgroups", kAll, kNone, false,
     "enable the cpu controller (cgroup v2: in cgroup.subtree_control; the kernel needs "
     "CONFIG_CFS_BANDWIDTH)"},
    {F::kCgroupPids, "cgroup_pids", "process limits of cgroups", kAll, kNone, false,
     "enable the pids controller (cgroup v2: in cgroup.subtree_control; the kernel needs "
     "CONFIG_CGROUP_PIDS)"},
    {F::kNftables, "nftables", "nftables", kAll, kNone, false,
     "load it: modprobe nf_tables; without it sandboxes cannot be kept off private networks"},
    {F::kConntrack, "conntrack", "connection tracking with zones", kAll, kNone, false,
     "load it: modprobe nft_ct; the kernel needs CONFIG_NF_CONNTRACK_ZONES"},
    {F::kNat, "nat", "address translation", kAll, kNone, false,
     "load it: modprobe nft_masq; the kernel needs CONFIG_NFT_MASQ"},
    {F::kVeth, "veth", "pairs of network links", kAll, kNone, false,
     "load it: modprobe veth; the kernel needs CONFIG_VETH"},
    {F::kRunsc, "runsc", "gVisor's program", kG, kNone, false,
     "install the package runsc (Debian 12: from bookworm-backports), or name it with --runsc"},
    {F::kRunscRecent, "runsc_recent", "a gVisor of 2024 or newer", kG, kNone, false,
     "Debian 12: take runsc from bookworm-backports"},
    {F::kRunscStarts, "runsc_starts", "a sandbox under gVisor that answers", kG, kNone, false,
     "the runner's log and gvisor.log in its run directory say what failed"},
    {F::kQemu, "qemu", "a machine image with QEMU and a kernel", kM, kNone, false,
     "make it: atoll-template machine (docs/guides/microvm.md)"},
    {F::kTun, "tun", "tap devices", kM, kNone, false,
     "load it: modprobe tun (in a container: give it /dev/net/tun)"},
    {F::kMachineStarts, "machine_starts", "a virtual machine that answers", kM, kNone, false,
     "the runner's log and microvm.log in its run directory say what failed; without KVM allow emulation"},
    {F::kLandlock, "landlock", "Landlock", kNone, kC, true,
     "add landlock to the kernel parameter lsm=; sandboxes run without this layer until then"},
    {F::kCgroupTree, "cgroup_tree", "unified cgroup tree", kNone, kAll, false,
     "mount cgroup2, beside the version 1 hierarchies where there are such; without it nothing can be "
     "paused"},
    {F::kCgroupFreeze, "cgroup_freeze", "freezing of cgroups", kNone, kAll, false,
     "Linux 5.2 or newer with cgroup2 is needed; without it nothing can be paused"},
    {F::kCgroupKill, "cgroup_kill", "kill switch of cgroups", kNone, kAll, true,
     "Linux 5.14 or newer with cgroup2 is needed; processes are killed one by one until then"},
    {F::kProcessLabels, "process_labels", "identities of labelled commands", kNone, kC, false,
     "mount cgroup2, and load nft_socket (CONFIG_NFT_SOCKET); without them no command can have a label"},
    {F::kSwapLimit, "swap_limit", "swap limits of cgroups", kNone, kAll, false,
     "kernel parameter swapaccount=1; without it sandboxes may fill the host's swap"},
    {F::kPressure, "pressure", "memory pressure", kNone, kAll, false,
     "kernel parameter psi=1; without it only free memory decides whether there is room"},
    {F::kKvm, "kvm", "hardware virtualisation", kNone, kM, true,
     "load kvm_intel or kvm_amd, and give access to /dev/kvm; without it virtual machines are emulated, "
     "where that is allowed, and slow"},
};

}  // namespace

std::span<const FeatureInfo> features() { return kTable; }

const FeatureInfo& info(Feature feature) {
  return *std::find_if(std::begin(kTable), std::end(kTable),
                       [feature](const FeatureInfo& row) { return row.feature == feature; });
}

std::string feature_error(std::uint8_t error) { return error == kNotTried ? "not tried" : ::strerror(error); }

std::string obstacle(const HostFeatures& host, Tier tier) {
  for (const FeatureInfo& row : kTable) {
    std::uint8_t error = host.error[static_cast<std::size_t>(row.feature)];
    if ((row.needed & tiers_of(tier)) == 0 || error == 0 || error == kNotTried) continue;
    return fmt::format("{} ({}): {}; {}", row.title, row.name, feature_error(error), row.remedy);
  }
  return {};
}

std::uint64_t missing_layers(const HostFeatures& host, Tier tier) {
  std::uint64_t bits = 0;
  for (const FeatureInfo& row : kTable) {
    bool missing = row.layer && (row.used & tiers_of(tier)) != 0 && !works(host, row.feature);
    if (missing) bits |= std::uint64_t{1} << static_cast<unsigned>(row.feature);
  }
  return bits;
}

}  // namespace atl::model
