// SPDX-License-Identifier: Apache-2.0
//
// Files by which a kernel shows or changes itself: /proc, /sys, /dev (K01, K02, K13, K24, K32).
#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include <cstring>

#include "probe.h"

namespace atl::escape {
namespace {

// Writing back what is there already changes nothing when it works.
Outcome rewrite(const char* path) {
  std::string now = read_text(path, 256);
  return try_write(path, now);
}

Outcome core_pattern(const Args& args) {
  // The marker makes the effect visible from the host; the harness puts the old value back.
  return try_write("/proc/sys/kernel/core_pattern", "core." + arg(args, "nonce"));
}

Outcome kallsyms(const Args&) {
  std::string text = read_text("/proc/kallsyms", 4096);
  if (text.empty()) return blocked(errno, "open or read");
  for (std::size_t at = 0; at + 16 < text.size(); at = text.find('\n', at) + 1) {
    if (text.compare(at, 16, "0000000000000000") != 0) return reached(text.substr(at, 48));
    if (text.find('\n', at) == std::string::npos) break;
  }
  return blocked(0, "all addresses are zero");
}

// The device exists and opens for reading or writing. No byte is read: some devices act on that.
Outcome open_device(const char* path) {
  for (int mode : {O_RDWR, O_RDONLY, O_WRONLY}) {
    long fd = raw(SYS_openat, AT_FDCWD, path, mode | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (fd >= 0) return reached(path);
  }
  return blocked(errno);
}

Outcome open_first_of(std::initializer_list<const char*> paths) {
  Outcome last = blocked(ENOENT);
  for (const char* path : paths) {
    last = open_device(path);
    if (last.reached) return last;
  }
  return last;
}

// Any control group file below /sys/fs/cgroup that opens for writing.
Outcome writable_cgroup_below(const std::string& folder, int depth) {
  for (const char* name :
       {"cgroup.procs", "tasks", "release_agent", "notify_on_release", "devices.allow",
        "memory.limit_in_bytes", "memory.max", "pids.max", "cgroup.freeze", "cgroup.kill"}) {
    std::string path = folder + "/" + name;
    long fd = raw(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CLOEXEC, 0);
    if (fd >= 0) return reached(path);
  }
  if (depth == 0) return blocked(errno);
  DIR* open = ::opendir(folder.c_str());
  if (open == nullptr) return blocked(errno);
  Outcome last = blocked(EACCES);
  while (dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] == '.' || entry->d_type != DT_DIR) continue;
    last = writable_cgroup_below(folder + "/" + entry->d_name, depth - 1);
    if (last.reached) break;
  }
  ::closedir(open);
  return last;
}

Outcome writable_cgroup(const Args&) { return writable_cgroup_below("/sys/fs/cgroup", 2); }

// Text that names the host's folders, or another sandbox, in any file that lists kernel objects.
Outcome tenant_paths(const Args& args) {
  std::string found;
  for (const char* path : {"/proc/self/mountinfo", "/proc/1/mountinfo", "/proc/mounts", "/proc/self/cgroup",
                           "/proc/1/cgroup", "/proc/self/mountstats", "/proc/locks", "/proc/net/unix",
                           "/proc/swaps", "/proc/1/cmdline", "/proc/cmdline", "/proc/self/environ",
                           "/proc/1/environ", "/sys/class/block/loop0/loop/backing_file"}) {
    std::string text = read_text(path, 32768);
    for (const char* key : {"data_dir", "run_dir", "neighbour", "host_dir"}) {
      const std::string& wanted = arg(args, key);
      std::size_t at = wanted.empty() ? std::string::npos : text.find(wanted);
      if (at != std::string::npos) found += std::string(path) + ": " + text.substr(at, 120) + "\n";
    }
  }
  return found.empty() ? blocked(0, "no name of the host found") : reached(found);
}

Outcome loop_backing(const Args& args) {
  std::string found;
  for (int i = 0; i < 64; ++i) {
    std::string path = "/sys/block/loop" + std::to_string(i) + "/loop/backing_file";
    std::string text = read_text(path.c_str(), 512);
    if (!arg(args, "data_dir").empty() && text.find(arg(args, "data_dir")) != std::string::npos)
      found += text;
  }
  return found.empty() ? blocked(errno, "no backing file readable") : reached(found);
}

Outcome host_name(const Args& args) {
  std::string name = read_text("/proc/sys/kernel/hostname", 128);
  bool same = !arg(args, "host_name").empty() && name.substr(0, name.find('\n')) == arg(args, "host_name");
  return {same, errno, name};
}

Outcome host_load(const Args&) {
  std::string text;
  for (const char* path : {"/proc/uptime", "/proc/loadavg", "/proc/meminfo", "/proc/stat"})
    text += std::string(path) + ": " + read_text(path, 80) + "\n";
  return reached(text);
}

#define READ_PROBE(id, path)                                     \
  Probe {                                                        \
    id, "read " path, [](const Args&) { return try_read(path); } \
  }
#define WRITE_PROBE(id, path)                                    \
  Probe {                                                        \
    id, "write " path, [](const Args&) { return rewrite(path); } \
  }
#define OPEN_WRITE_PROBE(id, path)                                                   \
  Probe {                                                                            \
    id, "open " path " for writing", [](const Args&) { return try_write(path, ""); } \
  }
#define DEVICE_PROBE(id, ...)                                                          \
  Probe {                                                                              \
    id, "open " #__VA_ARGS__, [](const Args&) { return open_first_of({__VA_ARGS__}); } \
  }

constexpr Probe kProbes[] = {
    {"K01.core_pattern", "write /proc/sys/kernel/core_pattern", core_pattern},
    WRITE_PROBE("K01.vm_swappiness", "/proc/sys/vm/swappiness"),
    WRITE_PROBE("K01.vm_overcommit", "/proc/sys/vm/overcommit_memory"),
    WRITE_PROBE("K01.randomize_va_space", "/proc/sys/kernel/randomize_va_space"),
    WRITE_PROBE("K01.file_max", "/proc/sys/fs/file-max"),
    WRITE_PROBE("K01.pid_max", "/proc/sys/kernel/pid_max"),
    WRITE_PROBE("K01.keys_quota", "/proc/sys/kernel/keys/maxkeys"),
    OPEN_WRITE_PROBE("K01.binfmt_misc", "/proc/sys/fs/binfmt_misc/register"),
    OPEN_WRITE_PROBE("K01.sysrq_trigger", "/proc/sysrq-trigger"),
    OPEN_WRITE_PROBE("K01.irq_affinity", "/proc/irq/default_smp_affinity"),
    OPEN_WRITE_PROBE("K01.mtrr", "/proc/mtrr"),
    OPEN_WRITE_PROBE("K01.ksm", "/sys/kernel/mm/ksm/run"),
    OPEN_WRITE_PROBE("K01.thp", "/sys/kernel/mm/transparent_hugepage/enabled"),
    OPEN_WRITE_PROBE("K01.uevent_helper", "/sys/kernel/uevent_helper"),
    OPEN_WRITE_PROBE("K01.power_state", "/sys/power/state"),

    READ_PROBE("K02.kcore", "/proc/kcore"),
    {"K02.kallsyms", "read kernel addresses from /proc/kallsyms", kallsyms},
    READ_PROBE("K02.timer_list", "/proc/timer_list"),
    READ_PROBE("K02.keys", "/proc/keys"),
    READ_PROBE("K02.key_users", "/proc/key-users"),
    READ_PROBE("K02.sched_debug", "/proc/sched_debug"),
    READ_PROBE("K02.latency_stats", "/proc/latency_stats"),
    READ_PROBE("K02.vmallocinfo", "/proc/vmallocinfo"),
    READ_PROBE("K02.slabinfo", "/proc/slabinfo"),
    READ_PROBE("K02.kpagecount", "/proc/kpagecount"),
    READ_PROBE("K02.kpageflags", "/proc/kpageflags"),
    READ_PROBE("K02.pagetypeinfo", "/proc/pagetypeinfo"),
    {"K02.kmsg", "open /proc/kmsg", [](const Args&) { return open_device("/proc/kmsg"); }},
    READ_PROBE("K02.debugfs", "/sys/kernel/debug/sched/debug"),
    READ_PROBE("K02.tracefs", "/sys/kernel/tracing/trace"),
    READ_PROBE("K02.acpi_tables", "/sys/firmware/acpi/tables/DSDT"),
    READ_PROBE("K02.vmcoreinfo", "/sys/kernel/vmcoreinfo"),
    READ_PROBE("K02.notes", "/sys/kernel/notes"),

    DEVICE_PROBE("K13.kvm", "/dev/kvm"),
    DEVICE_PROBE("K13.fuse", "/dev/fuse"),
    DEVICE_PROBE("K13.loop_control", "/dev/loop-control"),
    DEVICE_PROBE("K13.loop", "/dev/loop0", "/dev/loop1"),
    DEVICE_PROBE("K13.tun", "/dev/net/tun"),
    DEVICE_PROBE("K13.kmsg", "/dev/kmsg"),
    DEVICE_PROBE("K13.vsock", "/dev/vsock"),
    DEVICE_PROBE("K13.userfaultfd", "/dev/userfaultfd"),
    DEVICE_PROBE("K13.zram", "/dev/zram0", "/dev/zram1"),
    DEVICE_PROBE("K13.mapper", "/dev/mapper/control"),
    DEVICE_PROBE("K13.mem", "/dev/mem", "/dev/kmem", "/dev/port"),
    DEVICE_PROBE("K13.disk", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/xvda"),
    DEVICE_PROBE("K13.console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/hvc0"),
    DEVICE_PROBE("K13.hwrng", "/dev/hwrng"),
    DEVICE_PROBE("K13.cpu", "/dev/cpu/0/msr", "/dev/cpu/0/cpuid"),
    DEVICE_PROBE("K13.rtc", "/dev/rtc0", "/dev/hpet"),
    DEVICE_PROBE("K13.ppp", "/dev/ppp"),
    DEVICE_PROBE("K13.btrfs", "/dev/btrfs-control"),

    {"K24.cgroup_files", "open a control file below /sys/fs/cgroup for writing", writable_cgroup},

    {"K32.tenant_paths", "find names of the host or a neighbour in lists of kernel objects", tenant_paths},
    {"K32.loop_backing", "read the backing file of a loop device in /sys", loop_backing},
    {"K32.host_name", "read the name of the host", host_name},
    {"K32.host_load", "read uptime, load, memory and CPU counters of the host", host_load},
    READ_PROBE("K32.pressure", "/proc/pressure/memory"),
    READ_PROBE("K32.interrupts", "/proc/interrupts"),
    READ_PROBE("K32.zoneinfo", "/proc/zoneinfo"),
    READ_PROBE("K32.diskstats", "/proc/diskstats"),
    READ_PROBE("K32.iomem", "/proc/iomem"),
    READ_PROBE("K32.kernel_cmdline", "/proc/cmdline"),
    READ_PROBE("K32.dmi_uuid", "/sys/class/dmi/id/product_uuid"),
    READ_PROBE("K32.dmi_vendor", "/sys/class/dmi/id/sys_vendor"),
    READ_PROBE("K32.vulnerabilities", "/sys/devices/system/cpu/vulnerabilities/spectre_v2"),
    READ_PROBE("K32.host_net_devices", "/sys/class/net/eth0/device/vendor"),
    READ_PROBE("K32.block_devices", "/sys/block/vda/stat"),
};

}  // namespace

std::span<const Probe> kernel_probes() { return kProbes; }

}  // namespace atl::escape
