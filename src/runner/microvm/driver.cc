// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/driver.h"

#include <cpuid.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/patience.h"
#include "base/units.h"
#include "model/machine.h"
#include "runner/image_copy.h"
#include "runner/microvm/child.h"
#include "runner/microvm/link.h"
#include "runner/microvm/monitor.h"
#include "runner/names.h"
#include "runner/start_parts.h"
#include "runner/templates.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::runner::microvm {
namespace {

using model::wire::StartStep;
using sys::Fd;

constexpr std::size_t kLogBytes = 64 * 1024;
// Emulated on a busy machine.
constexpr Millis kGoBound{10'000};
// Raised with every change of QEMU's arguments, or of the guest's first program, that a stored memory would
// not survive.
constexpr int kArguments = 2;
constexpr char kMemoryFile[] = "/memory", kLayoutFile[] = "/layout";
constexpr char kWholeFile[] = "/whole";  // QEMU's own, until it is stored
// Below it the guest's kernel has no room for its own start.
constexpr std::uint64_t kMinMemory = 128 * kMiB;
constexpr std::uint32_t kMaxProcessors = 8;

// KERNEL: F_SEAL_GROW makes every write past the end fail (memfd_create(2)), so what is said has a bound that
// no process has to watch.
Result<Fd> make_log() {
  Fd log(::memfd_create("machine-log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!log || ::ftruncate(log.get(), kLogBytes) != 0 ||
      ::fcntl(log.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return Error::from_errno(errno, "make a log for QEMU");
  }
  return log;
}

// /dev of QEMU: what it may open. Owned by its user; nothing can be made in it.
Result<Fd> make_devices(std::uint32_t owner, bool kvm) {
  TRY(Fd dev, sys::mount_new("tmpfs", {{"size", "4k"}, {"nr_inodes", "8"}, {"mode", "0755"}}, sys::kNoSuid));
  const struct {
    const char* name;
    unsigned major, minor;
    bool wanted;
  } nodes[] = {{"null", 1, 3, true}, {"urandom", 1, 9, true}, {"kvm", 10, 232, kvm}};
  if (Result<Fd> at = sys::open_at(dev.get(), "memory", O_WRONLY | O_CREAT | O_EXCL, 0444); !at.ok())
    return std::move(at).error();
  for (const auto& node : nodes) {
    if (!node.wanted) continue;
    if (::mknodat(dev.get(), node.name, S_IFCHR | 0600, makedev(node.major, node.minor)) != 0 ||
        ::fchownat(dev.get(), node.name, owner, owner, 0) != 0)
      return Error::from_errno(errno, fmt::format("make /dev/{} for QEMU", node.name));
  }
  TRY_VOID(sys::restrict_mount(dev.get(), sys::kReadOnly | sys::kNoSuid | sys::kNoExec));
  return dev;
}

// What restore() has to know of save(), beside the memory.
struct Layout {
  std::uint32_t magic;
  std::uint32_t processors;
  std::uint64_t memory_offset;
  std::uint64_t memory_bytes;
};

Result<Layout> read_layout(const std::string& folder) {
  TRY(std::string bytes, sys::read_file(folder + kLayoutFile, 2 * sizeof(Layout)));
  Layout layout{};
  if (bytes.size() == sizeof layout) std::memcpy(&layout, bytes.data(), sizeof layout);
  if (layout.magic == model::kMachineMagic) return layout;
  return make_error(Code::kCorrupt, "{}{} is no layout of a memory", folder, kLayoutFile)
      .with_word("snapshot_corrupt");
}

std::uint32_t processors(const model::Limits& limits) {
  std::uint32_t wanted = std::min((limits.cpu_millis + 999) / 1000, kMaxProcessors);
  return std::clamp(wanted, 1u, std::max(std::thread::hardware_concurrency(), 1u));
}

Layout layout_of(const SavedMachine& saved, const model::Limits& limits) {
  return {model::kMachineMagic, processors(limits), saved.place.pages_offset, limits.memory_bytes};
}

Result<void> write_layout(const std::string& folder, const Layout& layout) {
  return sys::replace_file(folder + kLayoutFile, {reinterpret_cast<const char*>(&layout), sizeof layout},
                           0600);
}

// Puts into `folder` what differs from the memory in `origin`, that memory, and its layout. False: it differs
// too much.
Result<bool> keep_changes(const SavedMachine& saved, const std::string& origin, const model::Limits& limits,
                          const std::string& folder) {
  TRY(Layout layout, read_layout(origin));
  if (layout.memory_bytes != limits.memory_bytes ||
      saved.place.pages_bytes != machine_bytes(limits.memory_bytes))
    return make_error(Code::kCorrupt, "the machine's memory is of another size than that which it began as");
  TRY(Fd before, sys::open_file(origin + kMemoryFile, O_RDONLY | O_NOFOLLOW));
  TRY(Fd out, sys::open_file(folder + kMemoryFile, O_WRONLY | O_CREAT | O_EXCL, 0400));
  TRY(bool few, store_changes(saved.again.get(), saved.place, before.get(), layout.memory_offset, out.get()));
  if (!few) return false;
  std::string shared = folder + "/" + kSharedMemory;
  if (::link((origin + kMemoryFile).c_str(), shared.c_str()) != 0)
    return Error::from_errno(errno, fmt::format("link {}", shared));
  TRY_VOID(write_layout(folder, layout));
  return true;
}

// A copy, too: the QEMU that wrote a memory may go on, with that file open for writing, and others begin as
// what is stored.
Result<void> keep_all(const SavedMachine& saved, const model::Limits& limits, const std::string& folder) {
  std::string file = folder + kMemoryFile;
  for (const std::string& path : {file, folder + "/" + kSharedMemory}) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
      return Error::from_errno(errno, fmt::format("remove {}", path));
  }
  TRY_VOID(copy_sparse_file(folder + kWholeFile, file));
  if (::chmod(file.c_str(), 0444) != 0) return Error::from_errno(errno, fmt::format("change {}", file));
  return write_layout(folder, layout_of(saved, limits));
}

model::MachineOrder order_of(model::MachineWord word) {
  model::MachineOrder order{};
  order.word = word;
  return order;
}

model::MachineOrder order_with_names(model::MachineWord word, const StartSpec& spec) {
  model::MachineOrder order = order_of(word);
  order.names = spec.as_child ? 1 : 0;
  order.guest = guest_boot(spec);
  return order;
}

// Of a guest that came to nothing: what one answers is of its own disk or template.
bool is_silence(const Error& error) {
  return error.code() == Code::kDeadline || error.code() == Code::kUnavailable ||
         error.code() == Code::kCorrupt;
}

std::string processor_name() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  char vendor[13] = {};
  if (__get_cpuid(0, &a, &b, &c, &d) != 0) {
    std::memcpy(vendor, &b, 4);
    std::memcpy(vendor + 4, &d, 4);
    std::memcpy(vendor + 8, &c, 4);
  }
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) a = 0;
  return fmt::format("{}-{:08x}", vendor, a);
}

std::string short_digest(int file) {
  Result<Digest::Value> digest = digest_image(file);
  if (!digest.ok()) return "unknown";
  return hex_encode({reinterpret_cast<const char*>(digest->data()), 8});
}

}  // namespace

// From what a machine starts: its memory, or nothing. What is open stays when the names go.
struct MicrovmDriver::Source {
  std::string folder;  // empty: it boots
  std::string mapped;  // the file whose pages are its memory, less those that the folder's own file names
  Layout layout{};     // of `mapped`
  Fd memory, state;    // a read-only mount of `mapped`, and the folder's own file
};

struct MicrovmDriver::Parts {
  Fd machine, devices, image, tap, log;
  std::pair<Fd, Fd> status;  // the end to read, the end to write
  MachineSockets sockets;

  void close_theirs() {
    status.second.reset();
    sockets = {};
    tap.reset();
    image.reset();
  }
};

MicrovmDriver::MicrovmDriver(Tools tools)
    : tools_(std::move(tools)),
      links_(tools_.sockets),
      prepared_(tools_.prepared),
      origins_(tools_.origins) {}

void MicrovmDriver::use(Accelerator accelerator, std::uint32_t tsc_khz) {
  std::lock_guard lock(mutex_);
  accelerator_ = accelerator;
  tsc_khz_ = tsc_khz;
  if (machine_name_.empty()) {
    Result<Fd> image = sys::open_file(tools_.machine_image, O_RDONLY);
    machine_name_ = image.ok() ? short_digest(image->get()) : "none";
    daemon_name_ = short_digest(tools_.guestd);
  }
  runtime_ = fmt::format("machine {} {} {} arguments {}", machine_name_,
                         accelerator == Accelerator::kKvm ? "kvm" : "tcg", processor_name(), kArguments);
}

std::string MicrovmDriver::runtime() const {
  std::lock_guard lock(mutex_);
  return runtime_;
}

Capabilities MicrovmDriver::capabilities() const {
  Capabilities capabilities;
  capabilities.pause = tools_.cgroups.has_freeze();
  capabilities.memory_snapshot = true;
  capabilities.disk_snapshot = true;
  capabilities.fork = true;
  capabilities.guest_disk = true;
  return capabilities;
}

model::Overhead MicrovmDriver::overhead() const {
  bool emulated = accelerator_ == Accelerator::kEmulation;
  return model::overhead_of(tier(), std::uint64_t{emulated} << static_cast<unsigned>(model::Feature::kKvm));
}

Result<Fd> MicrovmDriver::open_template(const std::string& build) const {
  Result<Fd> image =
      sys::open_file(fmt::format("{}/{}/root.erofs", tools_.templates, build), O_RDONLY | O_NOFOLLOW);
  if (image.ok()) return image;
  return std::move(image)
      .error()
      .context(fmt::format("template build {}", build))
      .with_word("template_not_found")
      .with_hint("build the template again: atoll template");
}

Result<void> MicrovmDriver::prepare(const std::string& build) {
  Result<Fd> image = open_template(build);
  return image.ok() ? success() : Result<void>(std::move(image).error());
}

Result<MicrovmDriver::Source> MicrovmDriver::source_of(const std::string& folder) {
  Source source;
  source.folder = folder;
  source.mapped = folder + "/" + kSharedMemory;
  if (::access(source.mapped.c_str(), F_OK) != 0) source.mapped = folder + kMemoryFile;
  TRY(source.layout, read_layout(folder));
  TRY(source.memory, sys::clone_mount(AT_FDCWD, source.mapped));
  TRY_VOID(
      sys::restrict_mount(source.memory.get(), sys::kReadOnly | sys::kNoSuid | sys::kNoDev | sys::kNoExec));
  TRY(source.state, sys::open_file(folder + kMemoryFile, O_RDONLY));
  return source;
}

// Without it, all of its memory is stored when it is.
void MicrovmDriver::keep_origin(const StartSpec& spec, const Source& source) const {
  if (source.folder.empty()) return origins_.drop(spec.sandbox);
  Result<void> kept = origins_.keep(spec.sandbox, source.mapped, source.folder + kLayoutFile);
  if (!kept.ok()) log::warn("what a machine began as is not kept", {{"why", kept.error().message()}});
}

// Of the machine that was prepared on its way: it began as those do that are started from it.
void MicrovmDriver::keep_prepared_origin(const StartSpec& spec) {
  std::string folder = prepared_.find(spec, prepared_runtime());
  if (folder.empty()) return;
  Result<Source> source = source_of(folder);
  if (source.ok()) keep_origin(spec, *source);
}

void MicrovmDriver::forget(const std::string& build) { prepared_.forget(build); }

Result<MicrovmDriver::Parts> MicrovmDriver::make_parts(const StartSpec& spec, Leases& leases) const {
  Parts parts;
  TRY(parts.image, tools_.disks.open_image(spec.sandbox, O_RDWR));
  leases.slot.listener.reset();  // of the slot's network stack, which is only on the way here
  TRY(parts.tap, make_cable(leases.slot, tools_.host_netns));
  TRY(parts.machine, sys::clone_mount(AT_FDCWD, tools_.machine));
  TRY(parts.devices,
      make_devices(uid_base(leases.slot.number) + kMachineUser, accelerator_ == Accelerator::kKvm));
  TRY(parts.log, make_log());
  TRY(parts.status, make_pipe());
  TRY(parts.sockets, links_.listen(spec.sandbox));
  return parts;
}

// For people. A log that cannot be kept does not change the outcome.
void MicrovmDriver::keep_log(int log) const {
  std::string text(kLogBytes, '\0');
  ssize_t size = ::pread(log, text.data(), text.size(), 0);
  text.resize(std::min(size < 0 ? 0 : static_cast<std::size_t>(size), text.find('\0')));
  Result<void> kept = sys::replace_file(tools_.log_file, text, 0600);
  if (!kept.ok()) log::warn("what QEMU said is lost", {{"error", kept.error().message()}});
}

// QEMU runs when this returns, and nothing has come from its guest yet.
Result<Started> MicrovmDriver::launch(const StartSpec& spec, Leases& leases, int lower, const Source& source,
                                      StepTimes& times) {
  if (spec.limits.memory_bytes < kMinMemory) {
    return make_error(Code::kInvalid, "tier microvm needs at least {} MiB of memory", kMinMemory / kMiB)
        .with_hint("ask for more memory, or build the template with more");
  }
  std::uint64_t begin = now_ns();
  keep_origin(spec, source);
  TRY(Parts parts, make_parts(spec, leases));
  LaunchOrder order{};
  order.kind = OrderKind::kMicrovm;
  order.launch_id = spec.launch_id;
  order.uid_base = uid_base(leases.slot.number);
  order.memory_bytes = spec.limits.memory_bytes;
  order.processors = source.folder.empty() ? processors(spec.limits) : source.layout.processors;
  order.memory_offset = source.layout.memory_offset;
  order.emulated = accelerator_ == Accelerator::kEmulation ? 1 : 0;
  order.tsc_khz = tsc_khz_;
  PassedFds fds = passed_fds(leases);
  at(fds, Passed::kDisk) = -1;
  at(fds, Passed::kKit) = parts.devices.get();
  at(fds, Passed::kLower) = parts.machine.get();
  at(fds, Passed::kStatus) = parts.status.second.get();
  at(fds, Passed::kGuestd) = tools_.guestd;
  at(fds, Passed::kLog) = parts.log.get();
  at(fds, Passed::kImage) = parts.image.get();
  at(fds, Passed::kTemplate) = lower;
  at(fds, Passed::kTap) = parts.tap.get();
  at(fds, Passed::kChannel) = parts.sockets.channel.get();
  at(fds, Passed::kQmp) = parts.sockets.qmp.get();
  at(fds, Passed::kMemory) = source.memory.get();
  at(fds, Passed::kState) = source.state.get();
  times[StartStep::kStepPrepare] = us_between(begin, now_ns());
  TRY(Launcher::Launched launched, tools_.launcher.order(order, fds));
  FAULT("runner.start.after_clone");
  parts.close_theirs();
  times[StartStep::kStepClone] = launched.answer.clone_us;
  times[StartStep::kStepMaps] = launched.answer.maps_us;
  Started started;
  started.pid = launched.answer.pid;
  started.pidfd = std::move(launched.fd);
  Result<std::uint64_t> ticks = sys::start_ticks(started.pid);
  Result<void> runs =
      ticks.ok() ? wait_for_setup(parts.status.first.get(), times) : Result<void>(std::move(ticks).error());
  started.log = std::move(parts.log);
  FAULT("runner.start.after_exec");
  if (runs.ok()) {
    started.start_ticks = *ticks;
    std::lock_guard lock(mutex_);
    runs_.insert(spec.sandbox);
  }
  return checked(std::move(started), spec, runs);
}

// Ends what did not come to its point, and keeps what it said.
Result<Started> MicrovmDriver::checked(Started started, const StartSpec& spec, const Result<void>& ready) {
  if (ready.ok()) return started;
  keep_log(started.log.get());
  TRY_VOID(stop({spec.sandbox, started.pid, started.pidfd.get()}));
  return Error(ready.error())
      .with_hint(fmt::format("what QEMU and the guest said is in {}", tools_.log_file));
}

Result<void> MicrovmDriver::boot(const StartSpec& spec, Millis bound) {
  model::MachineOrder order = order_with_names(model::MachineWord::kBoot, spec);
  order.processes = spec.limits.processes;
  order.shm_bytes = shm_bytes(spec.limits);
  return links_.order(spec.sandbox, order, bound);
}

Result<Started> MicrovmDriver::start_on(int lower, Millis bound, const StartSpec& spec, Leases& leases,
                                        StepTimes& times) {
  auto until = Steady::now() + bound;
  TRY(Started started, launch(spec, leases, lower, Source(), times));
  Result<void> ready = links_.wait_until_parked(spec.sandbox, bound);
  auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
  if (ready.ok()) ready = boot(spec, left);
  return checked(std::move(started), spec, ready);
}

// A copy of the prepared machine of its kind. The first of a kind prepares it on its way.
Result<Started> MicrovmDriver::start(const StartSpec& spec, Leases& leases, StepTimes& times) {
  TRY(Fd lower, open_template(spec.build));
  std::string key = PreparedMachines::key_of(spec);
  std::string folder = prepared_.find(spec, prepared_runtime());
  // Another start may have removed it since: the eldest goes.
  Result<Source> source = folder.empty() ? Source() : source_of(folder);
  if (!source.ok() || folder.empty()) return boot_new(spec, leases, lower.get(), key, times);
  TRY(Started started, launch(spec, leases, lower.get(), *source, times));
  Result<void> ready = boot(spec, patient(kBootBound));
  if (!ready.ok() && is_silence(ready.error())) prepared_.drop(key);
  return checked(std::move(started), spec, ready);
}

Result<Started> MicrovmDriver::boot_new(const StartSpec& spec, Leases& leases, int lower,
                                        const std::string& key, StepTimes& times) {
  auto until = Steady::now() + patient(kBootBound);
  TRY(Started started, launch(spec, leases, lower, Source(), times));
  Result<void> ready = links_.wait_until_parked(spec.sandbox, patient(kBootBound));
  std::string folder = ready.ok() ? prepared_.begin(key) : std::string();
  Result<void> kept = success();
  Running running{spec.sandbox, started.pid, started.pidfd.get(), leases.slot.number};
  if (!folder.empty()) {
    kept = save_stopped(running, folder, spec.limits);
    if (!kept.ok()) log::warn("no machine was prepared", {{"why", kept.error().message()}});
    ready = let_run(running);
  }
  auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
  if (ready.ok()) ready = boot(spec, left);
  if (!folder.empty()) {
    prepared_.finish(key, spec, prepared_runtime(), kept.ok());
    keep_prepared_origin(spec);
  }
  return checked(std::move(started), spec, ready);
}

// QEMU writes all of it, which stays in the page cache; of that goes to the disk what the machine has
// changed. Whatever comes of it, the machine may stand still until let_run().
Result<void> MicrovmDriver::save_stopped(const Running& running, const std::string& folder,
                                         const model::Limits& limits) {
  std::string whole = folder + kWholeFile;
  TRY(Fd monitor, links_.connect_monitor(running.sandbox));
  {
    std::lock_guard lock(mutex_);
    runs_.erase(running.sandbox);
  }
  TRY(SavedMachine saved,
      save_machine(tools_.launcher, {running.slot, monitor, tools_.machine}, whole, patient(kSaveBound)));
  Result<bool> few = false;
  if (origins_.knows(running.sandbox))
    few = keep_changes(saved, origins_.folder(running.sandbox), limits, folder);
  if (!few.ok()) log::warn("all memory is stored", {{"why", few.error().message()}});
  Result<void> kept = few.ok() && *few ? success() : keep_all(saved, limits, folder);
  FAULT("runner.save.stored");
  // KERNEL: at the close of a file that was truncated once ext4 begins to write it out, and whoever closes it
  // waits for that (auto_da_alloc, ext4(5)); of one that is empty there is nothing.
  if (::ftruncate(saved.again.get(), 0) != 0 || ::unlink(whole.c_str()) != 0)
    return Error::from_errno(errno, fmt::format("remove {}", whole));
  return kept;
}

// Does nothing where the machine runs for sure. Where it is still being written out for a runner that is
// gone, or gave up, that is waited for.
Result<void> MicrovmDriver::let_run(const Running& running) {
  {
    std::lock_guard lock(mutex_);
    if (runs_.contains(running.sandbox)) return success();
  }
  TRY(Fd monitor, links_.connect_monitor(running.sandbox));
  TRY_VOID(resume_machine(tools_.launcher, {running.slot, monitor, tools_.machine}, patient(kSaveBound)));
  std::lock_guard lock(mutex_);
  runs_.insert(running.sandbox);
  return success();
}

// First all programs of the guest come to rest, so that none of them runs in a copy before the copy has
// random numbers of its own; then the machine.
Result<void> MicrovmDriver::save(const Running& running, const model::Limits& limits,
                                 const std::string& folder) {
  TRY_VOID(still(running));
  FAULT("runner.save.quiet");
  Result<void> saved = save_stopped(running, folder, limits);
  if (!saved.ok()) go_on_anyway(running);
  return saved;
}

// After what failed. Where this fails too, the next resume() tries it again.
void MicrovmDriver::go_on_anyway(const Running& running) {
  Result<void> goes = let_run(running);
  if (goes.ok())
    goes = links_.order(running.sandbox, order_of(model::MachineWord::kGo), patient(kPauseBound));
  if (goes.ok()) return;
  log::error("sandbox stands still", {{"id", running.sandbox}, {"error", goes.error().message()}});
}

Result<Started> MicrovmDriver::restore(const StartSpec& spec, Leases& leases, const std::string& folder,
                                       StepTimes& times) {
  TRY(Fd lower, open_template(spec.build));
  TRY(Source source, source_of(folder));
  if (source.layout.memory_bytes != spec.limits.memory_bytes)
    return make_error(Code::kConflict, "the stored memory is of another size").with_word("snapshot_mismatch");
  TRY(Started started, launch(spec, leases, lower.get(), source, times));
  Result<void> there =
      links_.order(spec.sandbox, order_with_names(model::MachineWord::kHello, spec), patient(kBootBound));
  return checked(std::move(started), spec, there);
}

Result<void> MicrovmDriver::pause(const Running& running) {
  tools_.cgroups.release_kernel_threads(running.sandbox);
  return freeze_processes(tools_.cgroups, running);
}

Result<void> MicrovmDriver::resume(const Running& running, bool& may_run) {
  TRY_VOID(tools_.cgroups.thaw(running.sandbox, patient(kPauseBound)));
  TRY_VOID(let_run(running));
  return links_.order(running.sandbox, order_of(model::MachineWord::kGo), patient(kGoBound), may_run);
}

Result<void> MicrovmDriver::sync(const Running& running) {
  TRY_VOID(let_run(running));
  return links_.order(running.sandbox, order_of(model::MachineWord::kSync), patient(kPauseBound));
}

// A guest that answers too late may have come to rest nevertheless.
Result<void> MicrovmDriver::still(const Running& running) {
  TRY_VOID(let_run(running));
  Result<void> rests = links_.order(running.sandbox, order_of(model::MachineWord::kQuiet), patient(kGoBound));
  if (!rests.ok()) go_on_anyway(running);
  return rests;
}

Result<void> MicrovmDriver::stop(const Running& running) {
  TRY_VOID(end_processes(tools_.cgroups, running));
  links_.drop(running.sandbox);
  origins_.drop(running.sandbox);
  std::lock_guard lock(mutex_);
  runs_.erase(running.sandbox);
  return success();
}

Result<std::array<std::uint64_t, 2>> MicrovmDriver::inspect(const Running& running) {
  TRY(Fd image, tools_.disks.open_image(running.sandbox, O_RDONLY));
  struct stat info{};
  if (::fstat(image.get(), &info) != 0) return Error::from_errno(errno, "ask for disk use");
  return std::array<std::uint64_t, 2>{static_cast<std::uint64_t>(info.st_blocks) * 512,
                                      static_cast<std::uint64_t>(info.st_size)};
}

}  // namespace atl::runner::microvm
