// SPDX-License-Identifier: Apache-2.0
//
// What is mounted here holds hostile bytes (a used disk is the sandbox's own work), but all of it is inside
// the machine, whose walls are not made here: nothing below keeps the sandbox from anything but accidents.
#include "guest/machine/init.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "guest/machine/network.h"
#include "guest/machine/orders.h"
#include "model/machine.h"
#include "sys/fd.h"
#include "sys/files.h"

namespace atl::guest {
namespace {

using sys::Fd;

constexpr char kTemplate[] = "/dev/vda";
constexpr char kDisk[] = "/dev/vdb";
constexpr char kDaemon[] = "/dev/vdc";
constexpr char kDiskFolder[] = "/disk";
constexpr char kGroup[] = "/cgroup/sandbox";
// What the guest's kernel and this program keep for themselves of the memory, beside the guest daemon's file.
constexpr std::uint64_t kReserve = 24ull << 20;

// Numbers at which the guest daemon finds its descriptors.
enum Place : int { kBootFd = 3, kReadyFd, kSettleFd, kEventsFd, kUsageFd, kStatFd, kCpuFd, kPlacesEnd };

// Those of the other tiers (runner/container/profile.h), and two that the guest daemon keeps from those that
// it starts: it sets the clock and feeds the kernel's random numbers.
constexpr int kCapabilities[] = {CAP_CHOWN,    CAP_DAC_OVERRIDE,     CAP_FOWNER,     CAP_FSETID,
                                 CAP_KILL,     CAP_SETGID,           CAP_SETUID,     CAP_SETPCAP,
                                 CAP_SETFCAP,  CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_AUDIT_WRITE,
                                 CAP_SYS_TIME, CAP_SYS_ADMIN};

struct Device {
  const char* path;
  unsigned major, minor;
};
constexpr Device kDevices[] = {{"/root/dev/null", 1, 3},    {"/root/dev/zero", 1, 5},
                               {"/root/dev/full", 1, 7},    {"/root/dev/random", 1, 8},
                               {"/root/dev/urandom", 1, 9}, {"/root/dev/tty", 5, 0}};
constexpr const char* kLinks[][2] = {{"/proc/self/fd", "/root/dev/fd"},
                                     {"/proc/self/fd/0", "/root/dev/stdin"},
                                     {"/proc/self/fd/1", "/root/dev/stdout"},
                                     {"/proc/self/fd/2", "/root/dev/stderr"},
                                     {"pts/ptmx", "/root/dev/ptmx"}};

Result<void> mount_on(const char* source, const char* target, const char* type, unsigned long flags,
                      const std::string& options = {}) {
  ::mkdir(target, 0755);
  if (::mount(source, target, type, flags, options.c_str()) != 0)
    return Error::from_errno(errno, fmt::format("mount {} on {}", type, target));
  return success();
}

// Those that the machine image brought, in the order of their names. One that does not fit (built in, or not
// of this processor) is no error: what is missed shows below.
void load_modules() {
  Result<std::vector<std::string>> names = sys::list_directory("/modules");
  if (!names.ok()) return;
  std::sort(names->begin(), names->end());
  for (const std::string& name : *names) {
    Result<Fd> module = sys::open_file("/modules/" + name, O_RDONLY);
    if (!module.ok()) continue;
    if (::syscall(SYS_finit_module, module->get(), "", 0) != 0 && errno != EEXIST && errno != ENODEV)
      std::printf("atoll-vminit: module %s: errno %d\n", name.c_str(), errno);
  }
}

// The directories that are mounted on, in place of whatever else the sandbox has made of their names on a
// disk that was used before.
void restore_skeleton() {
  for (const char* path : {"/disk/upper/proc", "/disk/upper/sys", "/disk/upper/dev"}) {
    ::unlink(path);
    ::mkdir(path, 0755);
  }
}

// What the kernel has read of the disk when the machine was prepared is of another one. KERNEL: BLKFLSBUF
// drops what is cached of a device (block/ioctl.c).
Result<void> forget_disk() {
  TRY(Fd device, sys::open_file(kDisk, O_RDONLY));
  if (::ioctl(device.get(), BLKFLSBUF, 0) != 0) return Error::from_errno(errno, "forget the disk");
  return success();
}

Result<void> build_root(const model::MachineOrder& boot) {
  TRY_VOID(forget_disk());
  TRY_VOID(mount_on(kDisk, kDiskFolder, "ext4", MS_NODEV, "noinit_itable"));
  restore_skeleton();
  TRY_VOID(mount_on("none", "/root", "overlay", MS_NODEV,
                    "lowerdir=/lower,upperdir=/disk/upper,workdir=/disk/work,userxattr"));
  TRY_VOID(mount_on("sysfs", "/root/sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC));
  TRY_VOID(mount_on("dev", "/root/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=64,mode=0755"));
  for (const Device& device : kDevices) {
    if (::mknod(device.path, S_IFCHR | 0666, makedev(device.major, device.minor)) != 0 ||
        ::chmod(device.path, 0666) != 0)
      return Error::from_errno(errno, fmt::format("make {}", device.path));
  }
  for (const auto& link : kLinks) {
    if (::symlink(link[0], link[1]) != 0) return Error::from_errno(errno, fmt::format("make {}", link[1]));
  }
  TRY_VOID(mount_on("none", "/root/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                    "newinstance,ptmxmode=0666,mode=0620,gid=5"));
  return mount_on("none", "/root/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV,
                  fmt::format("size={},nr_inodes=65536,mode=1777", boot.shm_bytes));
}

// The limits of the sandbox, and a memory limit below the machine's, so that the guest's kernel ends a
// process of the sandbox and not one of ours.
Result<void> make_group() {
  TRY_VOID(mount_on("none", "/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC));
  TRY_VOID(sys::write_file("/cgroup/cgroup.subtree_control", "+memory +pids +cpu"));
  if (::mkdir(kGroup, 0755) != 0) return Error::from_errno(errno, "make the sandbox's cgroup");
  TRY(Fd daemon, sys::open_file(kDaemon, O_RDONLY));
  off_t copy = ::lseek(daemon.get(), 0, SEEK_END);
  if (copy < 0) return Error::from_errno(errno, "measure the guest daemon");
  std::uint64_t reserve = kReserve + static_cast<std::uint64_t>(copy);
  auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  std::uint64_t memory = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::string group = kGroup;
  return sys::write_file(group + "/memory.max", std::to_string(memory - std::min(reserve, memory / 4)));
}

// A copy in memory: what is on the device could be swapped under it by no one, but its pages would compete
// with the sandbox's own.
Result<void> take_daemon() {
  TRY(Fd device, sys::open_file(kDaemon, O_RDONLY));
  TRY(Fd file, sys::open_file("/guestd", O_WRONLY | O_CREAT | O_EXCL, 0500));
  for (;;) {
    ssize_t n = ::sendfile(file.get(), device.get(), nullptr, 1 << 20);
    if (n < 0) return Error::from_errno(errno, "copy the guest daemon");
    if (n == 0) return success();
  }
}

struct Descriptors {
  Fd null, daemon, boot, ready, settle, events, usage, stat, cpu, group;
};

Result<void> fill_boot(model::MachineOrder& boot, Descriptors& out) {
  std::string group = kGroup;
  TRY(out.null, sys::open_file("/dev/null", O_RDWR));
  TRY(out.daemon, sys::open_file("/guestd", O_RDONLY));
  TRY(out.events, sys::open_file(group + "/memory.events", O_RDONLY));
  TRY(out.usage, sys::open_file(group + "/memory.current", O_RDONLY));
  TRY(out.stat, sys::open_file(group + "/memory.stat", O_RDONLY));
  TRY(out.cpu, sys::open_file(group + "/cpu.stat", O_RDONLY));
  TRY(out.group, sys::open_file(group, O_RDONLY | O_DIRECTORY));
  boot.guest.ready_fd = kReadyFd;
  boot.guest.settle_fd = kSettleFd;
  boot.guest.memory_events_fd = kEventsFd;
  boot.guest.memory_usage_fd = kUsageFd;
  boot.guest.memory_stat_fd = kStatFd;
  boot.guest.cpu_usage_fd = kCpuFd;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "make a pipe");
  out.boot = Fd(ends[0]);
  Fd writer(ends[1]);
  return sys::write_all(writer.get(), {reinterpret_cast<const char*>(&boot.guest), sizeof boot.guest});
}

[[noreturn]] void give_up(const char* what) {
  std::printf("atoll-vminit: %s: errno %d\n", what, errno);
  std::fflush(stdout);
  ::_exit(127);
}

void check(long result, const char* what) {
  if (result < 0) give_up(what);
}

void drop_capabilities() {
  for (int capability = 0; capability <= 63; ++capability) {
    bool kept =
        std::find(std::begin(kCapabilities), std::end(kCapabilities), capability) != std::end(kCapabilities);
    if (!kept && ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL)
      give_up("drop a capability");
  }
}

// In the child, alone in its namespaces.
[[noreturn]] void start_daemon(Descriptors& fds, const model::MachineOrder& boot) {
  ::setsid();
  check(::mount("proc", "/root/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), "mount proc");
  check(::mount("/root/proc/sys", "/root/proc/sys", nullptr, MS_BIND, nullptr), "bind /proc/sys");
  check(::mount(nullptr, "/root/proc/sys", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, nullptr),
        "lock /proc/sys");
  check(::chdir("/root"), "enter the root");
  check(::mount(".", "/", nullptr, MS_MOVE, nullptr), "move the root");
  check(::chroot("."), "enter the root");
  check(::chdir("/"), "enter /");
  const struct {
    int number;
    int source;
  } places[] = {{0, fds.null.get()},           {1, fds.null.get()},         {2, fds.null.get()},
                {kBootFd, fds.boot.get()},     {kReadyFd, fds.ready.get()}, {kSettleFd, fds.settle.get()},
                {kEventsFd, fds.events.get()}, {kUsageFd, fds.usage.get()}, {kStatFd, fds.stat.get()},
                {kCpuFd, fds.cpu.get()}};
  // First all above the numbers that are filled, so that no copy overwrites a source.
  int high[std::size(places)], daemon = ::fcntl(fds.daemon.get(), F_DUPFD_CLOEXEC, 64);
  check(daemon, "move a descriptor");
  for (std::size_t i = 0; i < std::size(places); ++i) {
    high[i] = ::fcntl(places[i].source, F_DUPFD_CLOEXEC, 64);
    check(high[i], "move a descriptor");
  }
  check(::syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_CLOEXEC), "mark descriptors");
  for (std::size_t i = 0; i < std::size(places); ++i)
    check(::dup2(high[i], places[i].number), "place a descriptor");
  const rlimit none{0, 0};
  check(::setrlimit(RLIMIT_CORE, &none), "forbid core files");
  // The daemon itself needs more descriptors than a process of a user may have.
  const rlimit files{std::max<rlim_t>(boot.guest.open_files, 65536),
                     std::max<rlim_t>(boot.guest.open_files, 65536)};
  check(::setrlimit(RLIMIT_NOFILE, &files), "set the limit of files");
  drop_capabilities();
  static_assert(kBootFd == 3);
  const char* arguments[] = {"atoll-guestd", "--boot-fd", "3", nullptr};
  const char* environment[] = {nullptr};
  ::syscall(SYS_execveat, daemon, "", arguments, environment, AT_EMPTY_PATH);
  give_up("exec the guest daemon");
}

Result<pid_t> launch(Descriptors& fds, const model::MachineOrder& boot) {
  clone_args args{};
  args.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWCGROUP | CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<std::uint64_t>(fds.group.get());
  long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid < 0) return Error::from_errno(errno, "clone for the guest daemon");
  if (pid == 0) start_daemon(fds, boot);
  return static_cast<pid_t>(pid);
}

// Nothing can write to the disk afterwards, and its file system says that it is whole. KERNEL: a read-only
// remount of ext4 gives the mark "valid" back (fs/ext4/super.c). Where a process still holds a file open to
// write, the kernel refuses it, and SysRq u does it by force (Documentation/admin-guide/sysrq.rst).
bool settle_disk() {
  ::sync();
  bool done = ::mount(nullptr, "/disk", nullptr, MS_REMOUNT | MS_RDONLY | MS_NODEV, nullptr) == 0;
  if (!done) {
    static_cast<void>(sys::write_file("/proc/sysrq-trigger", "u"));
    for (int i = 0; i < 100 && !done; ++i) {
      done =
          sys::read_file("/proc/self/mountinfo").value_or("").find("ext4 /dev/vdb ro") != std::string::npos;
      if (!done) ::poll(nullptr, 0, 20);
    }
  }
  ::sync();
  return done;
}

// The sandbox, from its boot on.
struct Sandbox {
  pid_t daemon = 0;  // 0: it is not booted
  Fd ready, settle;
  std::uint64_t boot_number = 0;  // of the order that waits for `ready`; 0: none does
  std::string names;              // to be taken when it goes on; empty: it keeps its own
};

std::string name_in(const model::MachineOrder& order) {
  return std::string(order.guest.sandbox, strnlen(order.guest.sandbox, sizeof order.guest.sandbox));
}

Result<void> boot(model::MachineOrder& order, Sandbox& sandbox) {
  freshen(order);
  TRY_VOID(build_root(order));
  TRY_VOID(sys::write_file(std::string(kGroup) + "/pids.max", std::to_string(order.processes)));
  std::string name = name_in(order);
  if (order.names != 0) TRY_VOID(take_names("/root", name));
  if (::sethostname(name.data(), name.size()) != 0) return Error::from_errno(errno, "set the host name");
  Descriptors fds;
  TRY_VOID(fill_boot(order, fds));
  int ready[2], settle[2];
  if (::pipe2(ready, O_CLOEXEC) != 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, settle) != 0)
    return Error::from_errno(errno, "make a pipe");
  sandbox.ready = Fd(ready[0]);
  sandbox.settle = Fd(settle[0]);
  fds.ready = Fd(ready[1]);
  fds.settle = Fd(settle[1]);
  TRY(sandbox.daemon, launch(fds, order));
  sandbox.boot_number = order.number;
  return success();
}

Result<void> wake(const model::MachineOrder& order, Sandbox& sandbox) {
  freshen(order);
  // The disk takes what is written only now, and the programs still stand still.
  TRY_VOID(thaw_disk(kDiskFolder));
  if (!sandbox.names.empty()) {
    TRY_VOID(take_names("/root", sandbox.names));
    sandbox.names.clear();
  }
  return go_on(kGroup);
}

// False for one whose answer comes later.
bool obey(model::MachineOrder& order, Sandbox& sandbox, Result<void>& result) {
  switch (order.word) {
    case model::MachineWord::kBoot:
      if (sandbox.daemon != 0) {
        result = Error::from_errno(EEXIST, "boot again");
        return true;
      }
      result = boot(order, sandbox);
      return !result.ok();
    case model::MachineWord::kHello:
      if (order.names != 0) sandbox.names = name_in(order);
      return true;
    case model::MachineWord::kQuiet: result = come_to_rest(kGroup, kDiskFolder); return true;
    case model::MachineWord::kGo: result = wake(order, sandbox); return true;
    case model::MachineWord::kSync: ::sync(); return true;
    default: result = Error::from_errno(EINVAL, "an order of another version"); return true;
  }
}

// Serves the runner, and the guest daemon until it ends.
Result<void> serve(Channel& channel, Sandbox& sandbox) {
  channel.answer(0, success());
  for (;;) {
    bool booted = sandbox.daemon != 0;
    pollfd items[] = {{channel.descriptor(), POLLIN, 0},
                      {sandbox.boot_number != 0 ? sandbox.ready.get() : -1, POLLIN, 0},
                      {booted ? sandbox.settle.get() : -1, POLLIN, 0}};
    if (::poll(items, std::size(items), -1) < 0 && errno != EINTR) return Error::from_errno(errno, "poll");
    char byte;
    if (items[1].revents != 0) {
      Result<void> ready = success();
      if (::read(sandbox.ready.get(), &byte, 1) != 1)
        ready = Error::from_errno(EPIPE, "the guest daemon ended");
      channel.answer(std::exchange(sandbox.boot_number, 0), ready);
    }
    if (items[2].revents != 0) {
      if (::read(sandbox.settle.get(), &byte, 1) <= 0) break;  // the daemon is gone
      byte = settle_disk() ? 0 : 1;
      static_cast<void>(!::write(sandbox.settle.get(), &byte, 1));
    }
    if (items[0].revents != 0) {
      model::MachineOrder order;
      TRY(bool whole, channel.read(order));
      Result<void> result = success();
      if (whole && obey(order, sandbox, result)) channel.answer(order.number, result);
    }
  }
  int status = 0;
  while (::waitpid(sandbox.daemon, &status, 0) < 0 && errno == EINTR) {}
  static_cast<void>(settle_disk());
  return make_error(Code::kInternal, "the guest daemon has ended");
}

}  // namespace

// Everything that does not depend on whose machine it is comes first: from there on copies of it are made.
Result<void> run_machine() {
  ::umask(022);
  TRY_VOID(mount_on("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC));
  TRY_VOID(mount_on("dev", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC));
  load_modules();
  TRY(Channel channel, Channel::open());
  TRY_VOID(mount_on(kTemplate, "/lower", "erofs", MS_RDONLY | MS_NODEV));
  TRY_VOID(bring_up_network());
  TRY_VOID(make_group());
  TRY_VOID(take_daemon());
  Sandbox sandbox;
  return serve(channel, sandbox);
}

}  // namespace atl::guest
