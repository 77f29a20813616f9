// SPDX-License-Identifier: Apache-2.0
//
// Puts the runner together. The order matters: the launcher is forked before there is a thread; what an
// earlier runner left is taken over before anything new is made.
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/patience.h"
#include "runner/container/driver.h"
#include "runner/container/profile.h"
#include "runner/evictor.h"
#include "runner/gvisor/check.h"
#include "runner/gvisor/driver.h"
#include "runner/host.h"
#include "runner/microvm/check.h"
#include "runner/microvm/driver.h"
#include "runner/options.h"
#include "runner/self_tests.h"
#include "runner/server.h"
#include "sys/files.h"
#include "sys/landlock.h"
#include "sys/mount.h"

namespace atl::runner {
namespace {

constexpr std::size_t kWorkers = 4;
constexpr Millis kLockPatience{10'000};
constexpr std::size_t kChannels = kLanes * kWorkers + 1;  // and the slot pool

struct Account {
  uid_t uid;
  gid_t gid;
};

Result<Account> control_account(const Options& options) {
  if (options.control_uid >= 0) {
    auto uid = static_cast<uid_t>(options.control_uid);
    const passwd* entry = ::getpwuid(uid);
    return Account{uid, entry != nullptr ? entry->pw_gid : uid};
  }
  const passwd* entry = ::getpwnam(options.control_user.c_str());
  if (entry == nullptr) {
    return make_error(Code::kNotFound, "there is no user {}", options.control_user)
        .with_hint("make it, or name another with --control-user");
  }
  return Account{entry->pw_uid, entry->pw_gid};
}

Result<void> make_directories(const Options& options) {
  TRY_VOID(sys::ensure_directory(options.data_dir, 0755));
  TRY_VOID(sys::ensure_directory(options.data_dir + "/disks", 0700));
  TRY_VOID(sys::ensure_directory(options.data_dir + "/stored", 0700));
  TRY_VOID(sys::ensure_directory(options.data_dir + "/snapshots", 0700));
  TRY_VOID(sys::ensure_directory(options.data_dir + "/memory", 0700));
  TRY_VOID(sys::ensure_directory(options.data_dir + "/prepared", 0700));
  TRY_VOID(sys::ensure_directory(options.data_dir + "/origins", 0700));
  TRY_VOID(sys::ensure_directory(options.data_dir + "/templates", 0755));
  TRY_VOID(sys::ensure_directory(options.run_dir, 0755));
  TRY_VOID(sys::ensure_directory(options.run_dir + "/sandboxes", 0700));
  TRY_VOID(sys::ensure_directory(options.run_dir + "/machines", 0700));
  TRY_VOID(sys::ensure_directory(options.run_dir + "/builds", 0700));
  return sys::ensure_directory(options.run_dir + "/stage", 0700);
}

// Two runners on one run directory would each believe that all is theirs. A launcher shares the lock of its
// runner until it has seen that one die and ends, so nothing of an earlier runner acts once we have it: hence
// the patience.
Result<sys::Fd> take_lock(const Options& options) {
  std::string path = options.run_dir + "/runner.lock";
  TRY(sys::Fd lock, sys::open_file(path, O_RDWR | O_CREAT, 0600));
  auto end = Steady::now() + patient(kLockPatience);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR || (errno == EWOULDBLOCK && Steady::now() < end)) {
      std::this_thread::sleep_for(Millis(10));
      continue;
    }
    return make_error(Code::kConflict, "another runner works in {}", options.run_dir)
        .with_hint("stop it, or choose another --run-dir, --data-dir, --instance and slot range");
  }
  return lock;
}

// As many descriptors as the host allows: each ready slot and disk holds a few.
void raise_limits() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // memory of ours holds tokens of sandboxes
}

Result<LauncherConfig> launcher_config(const Options& options, const model::HostFeatures& host) {
  LauncherConfig config;
  config.stage = options.run_dir + "/stage";
  TRY(sys::FilterProgram allowed, sys::compile_filter(container::allowed_calls()));
  TRY(sys::FilterProgram refused, sys::compile_filter(container::refused_arguments()));
  config.filter = sys::chain_filters(allowed, refused);
  // Where it is there and refused, it is missing: said so, and not tried again for each sandbox.
  config.landlock_abi = model::works(host, model::Feature::kLandlock) ? sys::landlock_abi() : 0;
  return config;
}

std::string default_guestd() {
  char path[4096];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  std::string self(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  return self.substr(0, self.rfind('/') + 1) + "atoll-guestd";
}

// Signals are read from a descriptor; blocked here, before any thread, so that all threads leave them there.
void block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

// Tiers that lack what they need are refused, whatever else works.
void judge_tiers(Service& service, const model::HostFeatures& host) {
  for (model::Tier tier : {model::Tier::kContainer, model::Tier::kGvisor, model::Tier::kMicrovm}) {
    std::string why = model::obstacle(host, tier);
    if (!why.empty() && service.offers(tier)) service.set_obstacle(tier, why);
  }
}

// None where the operator does not want one.
Result<std::unique_ptr<Evictor>> make_evictor(const Options& options, const sys::Cgroups& cgroups) {
  if (!options.evict_paused) return std::unique_ptr<Evictor>();
  TRY(std::string swaps, sys::read_file("/proc/swaps"));
  if (!has_swap(swaps)) {
    return make_error(Code::kUnavailable, "--evict-paused: this host has no swap")
        .with_hint("give it some, better zram (swapon(8), zramctl(8)), or do without the flag");
  }
  if (!cgroups.has_reclaim()) {
    return make_error(Code::kUnavailable, "--evict-paused: this kernel does not take memory of a cgroup back")
        .with_hint("Linux 5.19 for cgroup version 2; accounting of swap (swapaccount=1) for version 1");
  }
  return std::make_unique<Evictor>(cgroups);
}

struct Programs {
  sys::Fd guestd;
  Result<sys::Fd> runsc;  // or why there is none
};

// With what has been taken over.
Result<void> start_stores(const Options& options, const std::set<std::string>& kept, SnapshotStore& snapshots,
                          DiskPool& disks, SlotPool& slots) {
  TRY_VOID(snapshots.sweep());
  TRY_VOID(disks.start(kept, options.disk_bytes, options.ready_disks));
  return slots.start(options.ready_slots);
}

void mark_unusable(Service& service, model::Tier tier, const Error& why) {
  log::info("tier is not usable", {{"tier", model::tier_name(tier)}, {"why", why.message()}});
  service.set_obstacle(tier, why.message());
}

// What is known of gvisor now, or else the test that will tell.
void plan_gvisor(Service& service, const Result<sys::Fd>& runsc, model::HostFeatures& host,
                 const gvisor::TestParts& parts, std::vector<SelfTest>& tests) {
  constexpr model::Tier kTier = model::Tier::kGvisor;
  bool hopeless = !model::obstacle(host, kTier).empty();
  note_gvisor(host, runsc.ok() ? success() : Result<void>(runsc.error()));
  if (hopeless) return;
  if (!runsc.ok()) return mark_unusable(service, kTier, runsc.error());
  if (gvisor::known_to_start(parts)) return note_gvisor_starts(host, success());
  tests.push_back({kTier, gvisor::kTestSandbox, [parts](model::HostFeatures& found) {
                     Result<void> started = gvisor::self_test(parts);
                     note_gvisor_starts(found, started);
                     return started;
                   }});
}

// The same for microvm.
void plan_microvm(Service& service, model::HostFeatures& host, const microvm::TestParts& parts,
                  std::vector<SelfTest>& tests) {
  constexpr model::Tier kTier = model::Tier::kMicrovm;
  if (!model::obstacle(host, kTier).empty()) return;
  if (std::optional<Result<microvm::Accelerator>> known = microvm::known_accelerator(parts)) {
    note_machine_starts(host, *known);
    if (!known->ok()) mark_unusable(service, kTier, known->error());
    return;
  }
  tests.push_back({kTier, microvm::kTestSandbox, [parts](model::HostFeatures& found) {
                     Result<microvm::Accelerator> chosen = microvm::choose_accelerator(parts);
                     bool said = chosen.ok() || chosen.error().word() != "host_capacity";
                     if (said) note_machine_starts(found, chosen);
                     return chosen.ok() ? success() : Result<void>(std::move(chosen).error());
                   }});
}

Result<void> serve(const Options& options, const Account& account, Launcher& launcher,
                   const Programs& programs, model::HostFeatures& host, int landlock_abi) {
  TRY_VOID(sys::enter_private_mount_namespace());
  Result<sys::Cgroups> cgroups = sys::Cgroups::open(options.instance);
  if (!cgroups.ok()) return std::move(cgroups).error().context("cgroups");
  TRY(std::unique_ptr<Evictor> evictor, make_evictor(options, *cgroups));
  TemplateCache templates(options.data_dir + "/templates", options.run_dir + "/builds");
  RecordStore records(options.run_dir + "/sandboxes");
  RecordStore stored(options.data_dir + "/stored", sys::Durable::kYes);
  SnapshotStore snapshots(options.data_dir + "/snapshots");
  MemoryStore memories(options.data_dir + "/memory");
  Firewall firewall(options.instance, options.slots, options.egress_port);
  SlotPool slots(options.slots, launcher);
  DiskPool disks(options.data_dir + "/disks");
  TRY(sys::Fd netns, sys::open_file("/proc/self/ns/net", O_RDONLY));
  container::ContainerDriver driver(launcher, templates, *cgroups, programs.guestd.get());
  TRY(std::string guestd, gvisor::mount_program(programs.guestd.get(), options.run_dir + "/programs"));
  TRY(std::string runtime, gvisor::runtime_text(programs.runsc, programs.guestd.get()));
  gvisor::GvisorDriver gvisor({launcher, templates, *cgroups, guestd,
                               programs.runsc.ok() ? programs.runsc->get() : -1, netns.get(),
                               options.run_dir + "/gvisor.log", runtime});
  std::string machine = options.run_dir + "/machine";
  Result<void> mounted = microvm::mount_machine(options.data_dir, machine);
  microvm::MicrovmDriver microvm({launcher, disks, *cgroups, options.data_dir + "/templates", machine,
                                  microvm::machine_path(options.data_dir), programs.guestd.get(), netns.get(),
                                  options.run_dir + "/microvm.log", options.run_dir + "/machines",
                                  options.data_dir + "/prepared", options.data_dir + "/origins"});
  // A driver takes over what runs even where it can start nothing new.
  Service service({slots,
                   disks,
                   firewall,
                   *cgroups,
                   records,
                   snapshots,
                   memories,
                   stored,
                   {&driver, &gvisor, &microvm},
                   evictor.get(),
                   landlock_abi});
  TRY(std::set<std::string> kept, service.take_over());
  TRY_VOID(start_stores(options, kept, snapshots, disks, slots));
  note_machine(host, mounted);
  judge_tiers(service, host);
  std::vector<SelfTest> tests;
  plan_gvisor(service, programs.runsc, host,
              {gvisor, slots, disks, *cgroups, options.disk_bytes, options.run_dir + "/gvisor.tested"},
              tests);
  plan_microvm(service, host,
               {microvm, slots, disks, *cgroups, options.disk_bytes, microvm::machine_path(options.data_dir),
                options.run_dir + "/microvm.tested", options.microvm_emulation},
               tests);
  service.set_features(host);
  Result<void> ended = success();
  {
    Server server({options.socket, account.uid, account.gid, kWorkers}, service, launcher, firewall);
    SelfTests beside(service, *cgroups, host, std::move(tests), [&server] { server.host_changed(); });
    ended = server.run();
  }
  if (ended.ok() && service.count() == 0) {
    firewall.remove();
    cgroups->remove_parent();
  }
  return ended;
}

}  // namespace

Result<void> run(const Options& options) {
  if (::geteuid() != 0) {
    return make_error(Code::kDenied, "atoll-runner must run as root").with_hint("sudo atoll up");
  }
  patience_factor = options.patience;
  ::umask(0022);
  raise_limits();
  block_signals();
  TRY(Account account, control_account(options));
  TRY_VOID(make_directories(options));
  TRY(sys::Fd lock, take_lock(options));
  model::HostFeatures host = try_host();  // forks, so before there is a thread
  tell_missing(host);
  TRY(LauncherConfig config, launcher_config(options, host));
  config.lock = lock.get();
  TRY(sys::Fd guestd, container::seal_program(options.guestd.empty() ? default_guestd() : options.guestd));
  // Before there is a thread, because the check of its version forks.
  Programs programs{std::move(guestd), gvisor::find_runsc(options.runsc)};
  TRY(std::unique_ptr<Launcher> launcher, Launcher::start(config, kChannels));
  return serve(options, account, *launcher, programs, host, config.landlock_abi);
}

}  // namespace atl::runner
