// SPDX-License-Identifier: Apache-2.0
//
// System calls that must be refused, whatever the workload's uid is (K06-K10, K16-K24, K29).
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>

#include <cstring>
#include <ctime>
#include <string>

#include "probe.h"

namespace atl::escape {
namespace {

constexpr char kFolder[] = "/tmp/.escape-mnt";
// ioprio_set(2): who, and the real-time class above 13 bits of level. The kernel's header of these has a
// parameter named "class" in later releases of one version, and is no C++ there.
constexpr int kOneProcess = 1, kRealTimeIo = 1 << 13;

long mount_at(const char* source, const char* type, unsigned long flags, const char* data = nullptr) {
  raw(SYS_mkdirat, AT_FDCWD, kFolder, 0700);
  return raw(SYS_mount, source, kFolder, type, flags, data);
}

Outcome unmount_masked(const Args&) {
  Outcome last = blocked(ENOENT);
  for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sys", "/sys/firmware",
                           "/proc", "/sys", "/dev/shm"}) {
    last = judge(raw(SYS_umount2, path, MNT_DETACH));
    if (last.reached) return reached(path);
  }
  return last;
}

Outcome new_mount_calls(const Args&) {
  long fs = raw(SYS_fsopen, "tmpfs", 0);
  if (fs >= 0) return reached("fsopen");
  return blocked(errno);
}

Outcome move_mount_tree(const Args&) {
  raw(SYS_mkdirat, AT_FDCWD, kFolder, 0700);
  long tree = raw(SYS_open_tree, AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  if (tree < 0) return blocked(errno, "open_tree");
  return judge(raw(SYS_move_mount, tree, "", AT_FDCWD, kFolder, MOVE_MOUNT_F_EMPTY_PATH));
}

// A namespace by clone(2): the child ends at once.
Outcome clone_flag(unsigned long flags) {
  long pid = raw(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) raw(SYS_exit_group, 0);
  if (pid > 0) raw(SYS_wait4, pid, nullptr, __WALL, nullptr);
  return judge(pid);
}

Outcome clone3_flag(std::uint64_t flags) {
  clone_args request{};
  request.flags = flags;
  request.exit_signal = SIGCHLD;
  long pid = raw(SYS_clone3, &request, sizeof request);
  if (pid == 0) raw(SYS_exit_group, 0);
  if (pid > 0) raw(SYS_wait4, pid, nullptr, __WALL, nullptr);
  return judge(pid);
}

Outcome mount_in_new_user_namespace(const Args&) {
  if (raw(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS) < 0) return blocked(errno, "unshare");
  return judge(mount_at("tmpfs", "tmpfs", 0));
}

Outcome setns_of(const char* path, int flags) {
  long fd = raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return blocked(errno, "open");
  return judge(raw(SYS_setns, fd, flags));
}

Outcome setns_pidfd(const Args&) {
  long fd = raw(SYS_pidfd_open, 1, 0);
  if (fd < 0) return blocked(errno, "pidfd_open");
  return judge(raw(SYS_setns, fd, CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC));
}

// --- keys
// ---------------------------------------------------------------------------------------------------

Outcome session_key(const Args& args) {
  // A key that the harness put into its own session keyring; a child that keeps the keyring can read it.
  long key =
      raw(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", arg(args, "key_name").c_str(), 0);
  if (key < 0) return blocked(errno, "search");
  char text[128] = {};
  long n = raw(SYS_keyctl, KEYCTL_READ, key, text, sizeof text - 1);
  return n < 0 ? blocked(errno, "read") : reached(text);
}

// --- 32-bit entries
// -------------------------------------------------------------------------------------------

// A system call through int 0x80: the i386 table, whatever a filter that looks only at x86-64 numbers thinks.
long call_i386(long number, long a = 0, long b = 0, long c = 0) {
  long result = number;
  asm volatile("int $0x80" : "+a"(result) : "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
  return static_cast<int>(result);
}

Outcome judge_i386(long result) { return result >= 0 ? reached() : blocked(static_cast<int>(-result)); }

Outcome socketcall_i386(const Args&) {
  // socketcall(2) takes its arguments from memory below 4 GiB.
  void* low = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (low == MAP_FAILED) return blocked(errno, "mmap");
  const int arguments[3] = {AF_INET, SOCK_STREAM, 0};
  std::memcpy(low, arguments, sizeof arguments);
  return judge_i386(call_i386(102, 1, static_cast<long>(reinterpret_cast<std::uintptr_t>(low))));
}

Outcome x32_getpid(const Args&) { return judge(raw(SYS_getpid | 0x40000000)); }

// --- time, power, accounting
// ----------------------------------------------------------------------------------

Outcome set_time(const Args&) {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  return judge(raw(SYS_settimeofday, &now, nullptr));
}

Outcome clock_set(const Args&) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return judge(raw(SYS_clock_settime, CLOCK_REALTIME, &now));
}

Outcome adjust_time(long number) {
  timex state{};
  raw(SYS_adjtimex, &state);
  state.modes = ADJ_TICK;  // sets the tick to what it is
  return number == SYS_adjtimex ? judge(raw(SYS_adjtimex, &state))
                                : judge(raw(SYS_clock_adjtime, CLOCK_REALTIME, &state));
}

Outcome reboot_call(const Args&) {
  // An unknown command outside the first pid namespace: EINVAL comes only after the check for CAP_SYS_BOOT.
  return judge(raw(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF, nullptr),
               {EINVAL});
}

Outcome kernel_log(const Args&) {
  static char text[512];
  long n = raw(SYS_syslog, 3, text, sizeof text - 1);  // SYSLOG_ACTION_READ_ALL
  return n < 0 ? blocked(errno) : reached();
}

Outcome bpf_load(const Args&) {
  const bpf_insn program[] = {{.code = 0xb7, .imm = 0}, {.code = 0x95}};  // r0 = 0; exit
  bpf_attr request{};
  request.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
  request.insn_cnt = 2;
  request.insns = reinterpret_cast<std::uintptr_t>(program);
  request.license = reinterpret_cast<std::uintptr_t>("Apache-2.0");
  return judge(raw(SYS_bpf, BPF_PROG_LOAD, &request, sizeof request));
}

Outcome perf_open(const Args&) {
  perf_event_attr request{};
  request.size = sizeof request;
  request.type = PERF_TYPE_SOFTWARE;
  request.config = PERF_COUNT_SW_CPU_CLOCK;
  return judge(raw(SYS_perf_event_open, &request, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));  // the whole CPU 0
}

Outcome io_uring(const Args&) {
  io_uring_params request{};
  return judge(raw(SYS_io_uring_setup, 2, &request));
}

Outcome modify_ldt(const Args&) {
  struct {
    unsigned entry, base, limit, flags;
  } entry{0, 0, 0xfffff, 0x51};
  return judge(raw(SYS_modify_ldt, 1, &entry, sizeof entry));
}

Outcome push_terminal_input(const Args&) {
  long master = raw(SYS_openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY, 0);
  if (master < 0) return blocked(errno, "open /dev/ptmx");
  int zero = 0;
  raw(SYS_ioctl, master, TIOCSPTLCK, &zero);
  long slave = raw(SYS_ioctl, master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
  if (slave < 0) return blocked(errno, "open the terminal's other side");
  raw(SYS_ioctl, slave, TIOCSCTTY, 0);
  char c = 'x';
  return judge(raw(SYS_ioctl, slave, TIOCSTI, &c));
}

// --- scheduling
// -----------------------------------------------------------------------------------------------

Outcome realtime(int policy) {
  // KERNEL: struct sched_param is this number alone (sched_setscheduler(2)). Newer kernel headers (Debian 13)
  // have no such struct any more, and that of older ones clashes with the one in <sched.h>.
  int priority = 10;
  return judge(raw(SYS_sched_setscheduler, 0, policy, &priority));
}

Outcome clamp_utilisation(const Args&) {
  sched_attr request{};
  request.size = sizeof request;
  request.sched_policy = SCHED_NORMAL;
  request.sched_flags = SCHED_FLAG_UTIL_CLAMP_MIN;
  request.sched_util_min = 1024;
  return judge(raw(SYS_sched_setattr, 0, &request, 0));
}

Outcome lock_memory(const Args&) {
  constexpr std::size_t kSize = 64u << 20;
  void* memory =
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return judge(raw(SYS_mlock, memory, kSize));
}

Outcome raise_limit(int which, std::uint64_t value) {
  rlimit request{value, value};
  return judge(raw(SYS_prlimit64, 0, which, &request, nullptr));
}

#define UNSHARE_PROBE(name, flag)                                                            \
  Probe {                                                                                    \
    "K09." name, "unshare " #flag, [](const Args&) { return judge(raw(SYS_unshare, flag)); } \
  }
#define SETNS_PROBE(name, kind, flag)                                                                        \
  Probe {                                                                                                    \
    "K10." name, "setns to /proc/1/ns/" kind, [](const Args&) { return setns_of("/proc/1/ns/" kind, flag); } \
  }
#define FAMILY_PROBE(name, family, type, protocol)                                 \
  Probe {                                                                          \
    "K19." name, "socket " #family,                                                \
        [](const Args&) { return judge(raw(SYS_socket, family, type, protocol)); } \
  }

constexpr Probe kProbes[] = {
    {"K06.tmpfs", "mount a tmpfs", [](const Args&) { return judge(mount_at("none", "tmpfs", 0)); }},
    {"K06.proc", "mount a fresh proc", [](const Args&) { return judge(mount_at("none", "proc", 0)); }},
    {"K06.sysfs", "mount a fresh sysfs", [](const Args&) { return judge(mount_at("none", "sysfs", 0)); }},
    {"K06.bind", "bind-mount /", [](const Args&) { return judge(mount_at("/", nullptr, MS_BIND | MS_REC)); }},
    {"K06.overlay", "mount an overlay",
     [](const Args&) { return judge(mount_at("none", "overlay", 0, "lowerdir=/usr:/etc")); }},
    {"K06.devpts", "mount a devpts", [](const Args&) { return judge(mount_at("none", "devpts", 0)); }},
    {"K06.remount_root", "remount / writable",
     [](const Args&) { return judge(raw(SYS_mount, nullptr, "/", nullptr, MS_REMOUNT | MS_BIND, nullptr)); }},
    {"K06.remount_proc", "remount /proc/sys writable",
     [](const Args&) {
       return judge(raw(SYS_mount, nullptr, "/proc", nullptr, MS_REMOUNT | MS_BIND, nullptr));
     }},
    {"K06.unmount", "unmount a masked path", unmount_masked},
    {"K06.fsopen", "fsopen", new_mount_calls},
    {"K06.move_mount", "open_tree and move_mount of /proc", move_mount_tree},
    {"K06.pivot_root", "pivot_root",
     [](const Args&) { return judge(raw(SYS_pivot_root, ".", "."), {EINVAL, EBUSY}); }},
    {"K06.mount_setattr", "mount_setattr of /",
     [](const Args&) {
       mount_attr request{};
       return judge(raw(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &request, sizeof request));
     }},

    {"K08.unshare", "unshare CLONE_NEWUSER",
     [](const Args&) { return judge(raw(SYS_unshare, CLONE_NEWUSER)); }},
    {"K08.clone", "clone CLONE_NEWUSER", [](const Args&) { return clone_flag(CLONE_NEWUSER); }},
    {"K08.clone3", "clone3 CLONE_NEWUSER", [](const Args&) { return clone3_flag(CLONE_NEWUSER); }},
    {"K08.mount_inside", "mount in a user namespace of its own", mount_in_new_user_namespace},

    UNSHARE_PROBE("net", CLONE_NEWNET),
    UNSHARE_PROBE("mount", CLONE_NEWNS),
    UNSHARE_PROBE("pid", CLONE_NEWPID),
    UNSHARE_PROBE("time", CLONE_NEWTIME),
    UNSHARE_PROBE("cgroup", CLONE_NEWCGROUP),
    UNSHARE_PROBE("uts", CLONE_NEWUTS),
    UNSHARE_PROBE("ipc", CLONE_NEWIPC),

    SETNS_PROBE("mount", "mnt", CLONE_NEWNS),
    SETNS_PROBE("net", "net", CLONE_NEWNET),
    SETNS_PROBE("uts", "uts", CLONE_NEWUTS),
    SETNS_PROBE("ipc", "ipc", CLONE_NEWIPC),
    SETNS_PROBE("pid", "pid", CLONE_NEWPID),
    SETNS_PROBE("cgroup", "cgroup", CLONE_NEWCGROUP),
    {"K10.pidfd", "setns by pidfd of pid 1", setns_pidfd},

    {"K16.add_key", "add_key",
     [](const Args&) { return judge(raw(SYS_add_key, "user", "escape", "x", 1, KEY_SPEC_PROCESS_KEYRING)); }},
    {"K16.request_key", "request_key",
     [](const Args&) { return judge(raw(SYS_request_key, "user", "escape-none", nullptr, 0), {ENOKEY}); }},
    {"K16.session_key", "read a key of the host's session keyring", session_key},

    {"K17.name_to_handle", "name_to_handle_at",
     [](const Args&) {
       struct {
         unsigned bytes;
         int type;
         char data[128];
       } handle{128, 0, {}};
       int mount = 0;
       return judge(raw(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount, 0));
     }},

    {"K18.int80_getpid", "getpid by int 0x80", [](const Args&) { return judge_i386(call_i386(20)); }},
    {"K18.int80_socket", "socket by int 0x80, number 359",
     [](const Args&) { return judge_i386(call_i386(359, AF_INET, SOCK_STREAM)); }},
    {"K18.int80_socketcall", "socket by int 0x80, socketcall", socketcall_i386},
    {"K18.int80_alg", "AF_ALG socket by int 0x80",
     [](const Args&) { return judge_i386(call_i386(359, AF_ALG, SOCK_SEQPACKET)); }},
    {"K18.x32", "getpid with the x32 bit", x32_getpid},

    FAMILY_PROBE("alg", AF_ALG, SOCK_SEQPACKET, 0),
    FAMILY_PROBE("packet", AF_PACKET, SOCK_RAW, 0),
    FAMILY_PROBE("vsock", AF_VSOCK, SOCK_STREAM, 0),
    FAMILY_PROBE("key", AF_KEY, SOCK_RAW, 2),
    FAMILY_PROBE("rxrpc", AF_RXRPC, SOCK_DGRAM, AF_INET),
    FAMILY_PROBE("xdp", AF_XDP, SOCK_RAW, 0),
    FAMILY_PROBE("tipc", AF_TIPC, SOCK_SEQPACKET, 0),
    FAMILY_PROBE("can", AF_CAN, SOCK_RAW, 1),
    FAMILY_PROBE("smc", AF_SMC, SOCK_STREAM, 0),
    FAMILY_PROBE("netlink_xfrm", AF_NETLINK, SOCK_RAW, 6),
    FAMILY_PROBE("netlink_netfilter", AF_NETLINK, SOCK_RAW, 12),
    FAMILY_PROBE("netlink_audit", AF_NETLINK, SOCK_RAW, 9),
    FAMILY_PROBE("netlink_generic", AF_NETLINK, SOCK_RAW, 16),

    {"K21.kexec_load", "kexec_load",
     [](const Args&) { return judge(raw(SYS_kexec_load, 0, 0, nullptr, 0)); }},
    {"K21.init_module", "init_module",
     [](const Args&) { return judge(raw(SYS_init_module, "x", 1, ""), {ENOEXEC, EINVAL}); }},
    {"K21.finit_module", "finit_module",
     [](const Args&) { return judge(raw(SYS_finit_module, -1, "", 0), {EBADF, EINVAL}); }},
    {"K21.delete_module", "delete_module",
     [](const Args&) { return judge(raw(SYS_delete_module, "escape", 0), {ENOENT}); }},
    {"K21.reboot", "reboot", reboot_call},
    {"K21.swapon", "swapon", [](const Args&) { return judge(raw(SYS_swapon, "/escape-none", 0), {ENOENT}); }},
    {"K21.swapoff", "swapoff", [](const Args&) { return judge(raw(SYS_swapoff, "/escape-none"), {ENOENT}); }},
    {"K21.acct", "acct", [](const Args&) { return judge(raw(SYS_acct, "/escape-none"), {ENOENT}); }},
    {"K21.quotactl", "quotactl Q_SYNC",
     [](const Args&) {
       return judge(raw(SYS_quotactl, 0x80000100u, "/dev/none", 0, nullptr), {ENOENT, ENODEV, ENOTBLK});
     }},
    {"K21.settimeofday", "settimeofday", set_time},
    {"K21.clock_settime", "clock_settime", clock_set},
    {"K21.adjtimex", "adjtimex", [](const Args&) { return adjust_time(SYS_adjtimex); }},
    {"K21.clock_adjtime", "clock_adjtime", [](const Args&) { return adjust_time(SYS_clock_adjtime); }},
    {"K21.sethostname", "sethostname",
     [](const Args& args) {
       const std::string& name = arg(args, "nonce");
       return judge(raw(SYS_sethostname, name.c_str(), name.size()));
     }},
    {"K21.iopl", "iopl", [](const Args&) { return judge(raw(SYS_iopl, 3)); }},
    {"K21.ioperm", "ioperm", [](const Args&) { return judge(raw(SYS_ioperm, 0x80, 1, 1)); }},
    {"K21.syslog", "read the kernel log", kernel_log},
    {"K21.bpf", "load a BPF program", bpf_load},
    {"K21.perf_event_open", "open a performance counter of CPU 0", perf_open},
    {"K21.userfaultfd", "userfaultfd", [](const Args&) { return judge(raw(SYS_userfaultfd, 0)); }},
    {"K21.io_uring", "io_uring_setup", io_uring},
    {"K21.vhangup", "vhangup", [](const Args&) { return judge(raw(SYS_vhangup)); }},
    {"K21.fanotify", "fanotify_init", [](const Args&) { return judge(raw(SYS_fanotify_init, 0x200, 0)); }},
    {"K21.fanotify_content", "fanotify_init with permission events",
     [](const Args&) { return judge(raw(SYS_fanotify_init, 4, 0)); }},
    {"K21.migrate_pages", "migrate_pages of pid 1",
     [](const Args&) {
       unsigned long nodes = 1;
       return judge(raw(SYS_migrate_pages, 1, 8, &nodes, &nodes));
     }},

    {"K22.read_implies_exec", "personality READ_IMPLIES_EXEC",
     [](const Args&) { return judge(raw(SYS_personality, READ_IMPLIES_EXEC)); }},
    {"K22.modify_ldt", "modify_ldt", modify_ldt},
    {"K23.tiocsti", "push input into a terminal", push_terminal_input},

    {"K24.mount_named", "mount a v1 hierarchy",
     [](const Args&) { return judge(mount_at("none", "cgroup", 0, "none,name=escape"), {EBUSY}); }},
    {"K24.mount_v2", "mount cgroup2",
     [](const Args&) { return judge(mount_at("none", "cgroup2", 0), {EBUSY}); }},

    {"K29.fifo", "SCHED_FIFO", [](const Args&) { return realtime(SCHED_FIFO); }},
    {"K29.round_robin", "SCHED_RR", [](const Args&) { return realtime(SCHED_RR); }},
    {"K29.nice", "nice -20", [](const Args&) { return judge(raw(SYS_setpriority, PRIO_PROCESS, 0, -20)); }},
    {"K29.ioprio", "real-time I/O priority",
     [](const Args&) { return judge(raw(SYS_ioprio_set, kOneProcess, 0, kRealTimeIo)); }},
    {"K29.uclamp", "clamp utilisation", clamp_utilisation},
    {"K29.mlock", "lock 64 MiB", lock_memory},
    {"K29.open_files", "raise the hard limit of open files",
     [](const Args&) { return raise_limit(RLIMIT_NOFILE, 19999); }},
    {"K29.oom_score", "lower oom_score_adj",
     [](const Args&) { return try_write("/proc/self/oom_score_adj", "-900"); }},
};

}  // namespace

std::span<const Probe> syscall_probes() { return kProbes; }

}  // namespace atl::escape
