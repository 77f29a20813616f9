// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/child.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "model/machine.h"

namespace atl::runner::microvm {
namespace {

// Numbers at which QEMU finds its descriptors. The arguments below name them.
enum Place : int { kChannelFd = 3, kTapFd, kTemplateFd, kDiskFd, kGuestdFd, kQmpFd, kStateFd };
// And atoll-qmp (apps/qmp).
enum MonitorPlace : int { kMonitorFd = 3, kFileFd, kFileAgainFd, kAnswerFd };
constexpr unsigned kMonitorSeconds = 600;  // far beyond the runner's patience
// What lies in a file of stored memory beside it.
constexpr rlim_t kDeviceState = 256ull << 20;
// Above them, while they are filled.
constexpr int kFirstKeptFd = 64;

class Child : ChildSteps {
 public:
  explicit Child(const ChildPlan& plan) : ChildSteps(plan) {}
  [[noreturn]] void run();
  [[noreturn]] void run_monitor();

 private:
  void build_root();
  void enter_root();
  void set_limits();
  struct Wanted {
    int number;
    int source;
  };
  void place(const Wanted* wanted, std::size_t count);
  void place_descriptors();
  void give_up_rights(std::uint32_t user);
  void write_arguments();
  [[noreturn]] void exec_qemu();

  char accelerator_[32];
  char processor_[32];
  char processors_[16];
  char memory_[32];
  char backend_[160];
  char network_[64];
  char kernel_line_[512];
};

// The image holds all that QEMU needs and nothing else; it cannot be written to.
void Child::build_root() {
  attach(fd(Passed::kLower), AT_FDCWD, "root");
  root_ = open_in(AT_FDCWD, "root", O_PATH | O_DIRECTORY, "open the root");
  if (fd(Passed::kKit) >= 0) attach(fd(Passed::kKit), root_, "dev");
  if (fd(Passed::kMemory) >= 0) attach(fd(Passed::kMemory), root_, "dev/memory");
}

// KERNEL: with both arguments ".", the old root ends up below the new one (pivot_root(2)).
void Child::enter_root() {
  check(::fchdir(root_), "enter the root");
  check(::syscall(SYS_pivot_root, ".", "."), "pivot_root");
  check(::umount2(".", MNT_DETACH), "detach the old root");
  check(::chdir("/"), "enter /");
}

// A file of QEMU's is at most as large as the disk's image, or as its memory when that is written out.
void Child::set_limits() {
  const rlimit none{0, 0};
  check(::setrlimit(RLIMIT_CORE, &none), "forbid core files");
  struct stat image{};
  check(::fstat(kDiskFd, &image), "look at the disk's image");
  auto size = std::max(static_cast<rlim_t>(image.st_size), plan_.order.memory_bytes + kDeviceState);
  const rlimit files{size, size};
  check(::setrlimit(RLIMIT_FSIZE, &files), "limit the size of files");
}

// First all above the numbers that are filled, so that no copy overwrites a source.
void Child::place(const Wanted* wanted, std::size_t count) {
  int kept[16];
  for (std::size_t i = 0; i < count; ++i) {
    kept[i] = -1;
    if (wanted[i].source < 0) continue;
    kept[i] = ::fcntl(wanted[i].source, F_DUPFD_CLOEXEC, kFirstKeptFd);
    check(kept[i], "keep a descriptor");
  }
  check(::syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_CLOEXEC), "mark descriptors");
  for (std::size_t i = 0; i < count; ++i)
    if (kept[i] >= 0) check(::dup3(kept[i], wanted[i].number, 0), "place a descriptor");
}

void Child::place_descriptors() {
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  check(null, "open /dev/null");
  const Wanted wanted[] = {{0, null},
                           {1, fd(Passed::kLog)},
                           {2, fd(Passed::kLog)},
                           {kChannelFd, fd(Passed::kChannel)},
                           {kTapFd, fd(Passed::kTap)},
                           {kTemplateFd, fd(Passed::kTemplate)},
                           {kDiskFd, fd(Passed::kImage)},
                           {kGuestdFd, fd(Passed::kGuestd)},
                           {kQmpFd, fd(Passed::kQmp)},
                           {kStateFd, fd(Passed::kState)}};
  place(wanted, std::size(wanted));
}

// KERNEL: leaving uid 0 clears the permitted and effective sets (capabilities(7)); the bounding set goes too,
// and no_new_privs keeps files from giving anything back.
void Child::give_up_rights(std::uint32_t user) {
  for (int capability = 0; capability <= 63; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      if (errno == EINVAL) break;  // past the last one that this kernel knows
      fail("drop a capability");
    }
  }
  // The launcher keeps its rights over changes of ids (launcher_main.cc); QEMU must not.
  check(::prctl(PR_SET_SECUREBITS, 0, 0, 0, 0), "reset the secure bits");
  check(::syscall(SYS_setresgid, user, user, user), "become the group");
  check(::syscall(SYS_setresuid, user, user, user), "become the user");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  check(::syscall(SYS_capset, &header, none), "drop capabilities");
  check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up privileges");
}

// Emulated, the guest's time stamp counter is the host's, and there is no timer to measure it by
// (docs/decisions/0083-microvm.md).
void Child::write_arguments() {
  const LaunchOrder& order = plan_.order;
  bool emulated = order.emulated != 0;
  std::snprintf(accelerator_, sizeof accelerator_, emulated ? "tcg,tb-size=128" : "kvm");
  // No virtual machines in there: what KVM does for those is more of the host's kernel within reach.
  std::snprintf(processor_, sizeof processor_, "%s,vmx=off,svm=off", emulated ? "max" : "host");
  std::snprintf(processors_, sizeof processors_, "%u", order.processors);
  std::snprintf(memory_, sizeof memory_, "%llu",
                static_cast<unsigned long long>(machine_bytes(order.memory_bytes) >> 20));
  // Memory from a file is a private copy of what is written, and the file's where nothing is.
  int size = std::snprintf(backend_, sizeof backend_, "%s,id=m0,size=%sM",
                           fd(Passed::kMemory) >= 0 ? "memory-backend-file" : "memory-backend-ram", memory_);
  if (fd(Passed::kMemory) >= 0) {
    std::snprintf(backend_ + size, sizeof backend_ - static_cast<std::size_t>(size),
                  ",mem-path=/dev/memory,offset=%llu,share=off,readonly=on,rom=off",
                  static_cast<unsigned long long>(order.memory_offset));
  }
  const std::uint8_t* mac = model::kMachineMac;
  std::snprintf(network_, sizeof network_, "virtio-net-device,netdev=net,mac=%02x:%02x:%02x:%02x:%02x:%02x",
                mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  char clock[96] = "";
  if (emulated) {
    std::snprintf(clock, sizeof clock, " tsc_early_khz=%u tsc=reliable no_timer_check mitigations=off",
                  order.tsc_khz);
  }
  std::snprintf(kernel_line_, sizeof kernel_line_,
                "console=ttyS0 quiet loglevel=3 panic=-1 reboot=t cryptomgr.notests random.trust_cpu=on "
                "rcupdate.rcu_expedited=1 nowatchdog%s",
                clock);
}

void Child::exec_qemu() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  static_assert(kChannelFd == 3 && kTapFd == 4 && kTemplateFd == 5 && kDiskFd == 6 && kGuestdFd == 7 &&
                kQmpFd == 8 && kStateFd == 9);
  // Nothing that the guest does not use: no PCI, no USB, no default devices. What is changed
  // here must not meet a memory that was stored before: raise kArguments (driver.cc). With KVM QEMU would
  // leave out the real-time clock, for which the guest's kernel waits seconds at its boot.
  bool restores = fd(Passed::kMemory) >= 0;
  // A kernel that runs needs no copy of its file in QEMU's memory.
  const char* const boot[] = {"-kernel", model::kMachineKernel, "-initrd", model::kMachineInitrd,
                              "-append", kernel_line_};
  const char* const state[] = {"-add-fd", "fd=9,set=4", "-incoming", "file:/dev/fdset/4", nullptr, nullptr};
  const char* const* begin = restores ? state : boot;
  const char* const arguments[] = {
      "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor",
      "none", "-L", model::kMachineFirmware, "-sandbox",
      "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", "-M",
      "microvm,acpi=on,isa-serial=on,rtc=on,usb=off,pcie=off,memory-backend=m0", "-object", backend_,
      "-global", "virtio-mmio.force-legacy=false", "-accel", accelerator_, "-cpu", processor_, "-smp",
      processors_, "-m", memory_,
      // The channel to the runner.
      "-chardev", "socket,id=channel,fd=3,server=on,wait=off", "-device", "virtio-serial-device,max_ports=2",
      "-device", "virtserialport,chardev=channel,name=atoll,nr=1",
      // Template, disk, guest daemon: in this order. What several QEMUs read is not locked, or any of them
      // could lock out the others. Flushes of the disk are honoured, for the guest's journal.
      "-add-fd", "fd=5,set=1", "-add-fd", "fd=6,set=2", "-add-fd", "fd=7,set=3", "-drive",
      "file=/dev/fdset/1,if=none,id=template,format=raw,readonly=on,file.locking=off", "-device",
      "virtio-blk-device,drive=template", "-drive",
      "file=/dev/fdset/2,if=none,id=disk,format=raw,auto-read-only=off,cache=writeback,discard=unmap,"
      "werror=report,rerror=report",
      "-device", "virtio-blk-device,drive=disk", "-drive",
      "file=/dev/fdset/3,if=none,id=guestd,format=raw,readonly=on,file.locking=off", "-device",
      "virtio-blk-device,drive=guestd",
      // Network, random numbers, what the kernel says.
      "-netdev", "tap,id=net,fd=4", "-device", network_, "-object", "rng-builtin,id=random", "-device",
      "virtio-rng-device,rng=random", "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
      // The monitor, and how memory is stored: at its place in the file; whoever starts from it runs.
      "-chardev", "socket,id=qmp,fd=8,server=on,wait=off", "-mon", "chardev=qmp,mode=control", "-global",
      "migration.mapped-ram=on", "-global", "migration.x-max-bandwidth=64G", "-global",
      "migration.store-global-state=off", begin[0], begin[1], begin[2], begin[3], begin[4], begin[5],
      nullptr};
  static const char* const kEnvironment[] = {nullptr};
  report(0, "", 0);
  ::execve(model::kMachineQemu, const_cast<char* const*>(arguments), const_cast<char* const*>(kEnvironment));
  fail("exec QEMU");
}

void Child::run() {
  join_cgroups();
  wait_for_maps();
  report_.released_ns = now_ns();
  become_root();
  build_root();
  report_.mounted_ns = now_ns();
  enter_root();
  report_.pivoted_ns = now_ns();
  place_descriptors();
  set_limits();
  write_arguments();
  give_up_rights(kMachineUser);
  report_.confined_ns = now_ns();
  exec_qemu();
}

// What it reads is hostile. It is as QEMU is, and another user.
void Child::run_monitor() {
  wait_for_maps();
  become_root();
  build_root();
  enter_root();
  const Wanted wanted[] = {{kMonitorFd, fd(Passed::kChannel)},
                           {kFileFd, fd(Passed::kState)},
                           {kFileAgainFd, fd(Passed::kAgain)},
                           {kAnswerFd, fd(Passed::kAnswer)}};
  place(wanted, std::size(wanted));
  const rlimit none{0, 0};
  check(::setrlimit(RLIMIT_CORE, &none), "forbid core files");
  give_up_rights(kMonitorUser);
  // Or it would keep the next runner from the monitor. KERNEL: a change of ids clears this (prctl(2)). Where
  // the launcher is gone already the runner is, and nobody reads the report below.
  check(::prctl(PR_SET_PDEATHSIG, SIGKILL), "end with the launcher");
  sigset_t signals;
  sigemptyset(&signals);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::alarm(kMonitorSeconds);
  report(0, "", 0);
  const char* arguments[] = {"atoll-qmp", plan_.order.resumes != 0 ? "cont" : "save", nullptr};
  const char* environment[] = {nullptr};
  ::execve(model::kMachineMonitor, const_cast<char* const*>(arguments),
           const_cast<char* const*>(environment));
  fail("exec atoll-qmp");
}

}  // namespace

// KERNEL: a `microvm` machine of exactly 2 GiB never gets past the guest kernel's "ACPI: Core revision", with
// KVM or without (microvm-nix/microvm.nix#171; seen here with QEMU 10.0 and Linux 6.1; a megabyte more or
// less boots).
std::uint64_t machine_bytes(std::uint64_t limit) {
  constexpr std::uint64_t kNeverBoots = 2048;
  std::uint64_t megabytes = limit >> 20;
  return (megabytes == kNeverBoots ? megabytes - 1 : megabytes) << 20;
}

void run_child(const ChildPlan& plan) { Child(plan).run(); }
void run_monitor(const ChildPlan& plan) { Child(plan).run_monitor(); }

}  // namespace atl::runner::microvm
