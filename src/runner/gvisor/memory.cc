// SPDX-License-Identifier: Apache-2.0
//
// Memory of the gvisor tier in files, and back (docs/decisions/0093-gvisor-memory.md).
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/fault.h"
#include "base/log.h"
#include "base/patience.h"
#include "base/units.h"
#include "runner/gvisor/driver.h"
#include "runner/gvisor/log_file.h"
#include "runner/gvisor/memory_files.h"
#include "runner/gvisor/visit.h"
#include "runner/image_copy.h"
#include "runner/names.h"
#include "runner/start_parts.h"
#include "sys/files.h"
#include "sys/netlink/netlink.h"
#include "sys/process.h"

namespace atl::runner::gvisor {
namespace {

using sys::Fd;

constexpr Millis kVisitEnd{2'000};
constexpr Millis kCloseBound{500};  // for connections that are being closed
constexpr Millis kLook{2};
// Of a visit itself: runsc has threads and a heap, and reads what a guest's kernel answers.
constexpr sys::CgroupLimits kVisitLimits{256 * kMiB, 2000, 64};
// What the files take beside the memory: the state of the kernel's objects.
constexpr std::uint64_t kStateRoom = 16 * kMiB;

Error in_the_way(std::string word, const std::string& what) {
  return make_error(Code::kConflict, "its memory cannot be stored in files now: {}", what)
      .with_word(std::move(word))
      .with_hint("it can rest in memory, or on its disk alone");
}

Result<Fd> private_root(const Running& running) {
  return sys::open_file(fmt::format("/proc/{}/root", running.pid), O_PATH | O_DIRECTORY);
}

bool is_there(int root, const char* path) {
  return ::faccessat(root, path + 1, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// Both directions: what processes of the guest have opened, and what came in through the slot's link.
Result<std::size_t> open_connections(std::uint32_t slot) {
  TRY(std::size_t out, sys::open_flows(alias_address(slot)));
  TRY(std::size_t in, sys::open_flows(host_address(slot)));
  return out + in;
}

Result<void> require_no_connections(std::uint32_t slot, Steady::time_point until) {
  for (;;) {
    TRY(std::size_t open, open_connections(slot));
    if (open == 0) return success();
    if (Steady::now() >= until)
      return in_the_way("outside_connections",
                        fmt::format("{} of its connections lead to the outside", open));
    std::this_thread::sleep_for(kLook);
  }
}

// From the sandbox's disk, whose size bounds them, to files of the host that only root opens; a mount of them
// can be read by whoever sees it.
Result<void> take_files(int root, const std::string& folder) {
  for (const char* name : kMemoryFiles) {
    std::string path = fmt::format("{}/{}", kWrittenMemory + 1, name);
    TRY(Fd from, sys::open_beneath(root, path, O_RDONLY | O_NONBLOCK));
    struct stat info{};
    if (::fstat(from.get(), &info) != 0 || !S_ISREG(info.st_mode))
      return make_error(Code::kInternal, "{} is not a file", path);
    TRY(Fd to, sys::open_file(folder + "/" + name, O_RDWR | O_CREAT | O_EXCL, 0444));
    TRY_VOID(copy_sparse(from.get(), to.get(), {.keep_reserve = true}));
  }
  return success();
}

// What take_files() has taken is not needed there any more.
Result<void> remove_written(int root) {
  for (const char* name : kMemoryFiles) {
    if (::unlinkat(root, fmt::format("{}/{}", kWrittenMemory + 1, name).c_str(), 0) != 0)
      return Error::from_errno(errno, fmt::format("remove {} of a sandbox", name));
  }
  if (::unlinkat(root, kWrittenMemory + 1, AT_REMOVEDIR) != 0)
    return Error::from_errno(errno, "remove the folder of a sandbox's memory");
  return success();
}

Error told(const ChildReport& report) {
  if (report.error == kNoRoom) return in_the_way("disk_full", "its disk has too little room left");
  if (report.error == kNamelessFile)
    return in_the_way("nameless_file", "a process uses a file or directory that was removed");
  return Error::from_errno(report.error, fmt::format("visit the sandbox: {}", report.what));
}

}  // namespace

// One child of the launcher inside a sandbox. Its destruction ends it.
class GvisorDriver::Visit {
 public:
  Visit(const GvisorDriver& driver, const Running& running)
      : driver_(driver), running_(running), group_(running.sandbox + ".visit") {}
  Visit(const Visit&) = delete;
  ~Visit();

  // `room`: what a save may need on the sandbox's disk.
  Result<void> begin(Command command, std::uint64_t room);
  Result<void> wait(Steady::time_point until);  // until it says that a step is done
  Result<void> let_go_on();

 private:
  const GvisorDriver& driver_;
  const Running& running_;
  const std::string group_;
  std::pair<Fd, Fd> status_, go_;
  Fd log_, pidfd_;
  bool failed_ = false;
};

GvisorDriver::Visit::~Visit() {
  go_.second.reset();
  if (pidfd_ && !sys::wait_for_end(pidfd_.get(), failed_ ? Millis(0) : kVisitEnd)) {
    static_cast<void>(sys::signal_process(pidfd_.get(), SIGKILL));
    static_cast<void>(sys::wait_for_end(pidfd_.get(), kVisitEnd));
  }
  Result<void> removed = driver_.tools_.cgroups.remove(group_, kVisitEnd);
  if (!removed.ok()) log::error("group of a visit stays", {{"error", removed.error().message()}});
  if (failed_ && log_) driver_.keep_log(log_.get());
}

Result<void> GvisorDriver::Visit::begin(Command command, std::uint64_t room) {
  TRY(log_, make_log());
  TRY(status_, make_pipe());
  TRY(go_, make_pipe());
  TRY(sys::CgroupHandles group, driver_.tools_.cgroups.create(group_, kVisitLimits));
  LaunchOrder order{};
  order.kind = OrderKind::kVisit;
  order.command = static_cast<std::uint32_t>(command);
  order.memory_bytes = room;
  PassedFds fds;
  fds.fill(-1);
  put_cgroup(fds, group);
  at(fds, Passed::kHost) = running_.pidfd;
  at(fds, Passed::kStatus) = status_.second.get();
  at(fds, Passed::kGo) = go_.first.get();
  at(fds, Passed::kProgram) = driver_.tools_.runsc;
  at(fds, Passed::kLog) = log_.get();
  TRY(Launcher::Launched launched, driver_.tools_.launcher.order(order, fds));
  pidfd_ = std::move(launched.fd);
  status_.second.reset();
  go_.first.reset();
  return success();
}

Result<void> GvisorDriver::Visit::wait(Steady::time_point until) {
  Result<std::optional<ChildReport>> report = read_report(status_.first.get(), until);
  failed_ = !report.ok() || !*report || (*report)->error != 0;
  if (!failed_) return success();
  if (!report.ok()) return std::move(report).error().context("visit the sandbox");
  if (!*report)
    return make_error(Code::kInternal, "a visit to sandbox {} ended without a word", running_.sandbox);
  return told(**report);
}

Result<void> GvisorDriver::Visit::let_go_on() {
  if (::write(go_.second.get(), "", 1) != 1) return Error::from_errno(errno, "release a visit");
  return success();
}

// Whatever fails, the sandbox goes on: the visit sees to it, and resume() where that one was cut off.
Result<void> GvisorDriver::save(const Running& running, const model::Limits&, const std::string& folder) {
  TRY_VOID(require_no_connections(running.slot, Steady::now() + kCloseBound));
  Result<void> saved = write_memory(running);
  if (saved.ok()) {
    Result<Fd> root = private_root(running);
    saved = root.ok() ? take_files(root->get(), folder) : Result<void>(std::move(root).error());
    if (saved.ok()) saved = remove_written(root->get());
  }
  FAULT("runner.save.after_files");
  if (saved.ok()) saved = sync(running);
  if (!saved.ok()) TRY_VOID(resume(running));
  return saved;
}

// No process of the guest runs any more when connections are counted again, so none is opened after that.
Result<void> GvisorDriver::write_memory(const Running& running) {
  Steady::time_point until = Steady::now() + patient(kSaveBound);
  Visit visit(*this, running);
  TRY_VOID(visit.begin(Command::kSave, tools_.cgroups.usage(running.sandbox).memory_used + kStateRoom));
  TRY_VOID(visit.wait(until));
  FAULT("runner.save.still");
  TRY_VOID(require_no_connections(running.slot, Steady::now()));
  TRY_VOID(visit.let_go_on());
  return visit.wait(until);
}

Result<void> GvisorDriver::resume(const Running& running, bool& may_run) {
  TRY_VOID(tools_.cgroups.thaw(running.sandbox, patient(kPauseBound)));
  TRY(Fd root, private_root(running));
  if (is_there(root.get(), kGoFifo)) return let_restored_go_on(running, root.get(), may_run);
  may_run = true;
  if (!is_there(root.get(), kStillMark)) return success();
  Visit visit(*this, running);
  TRY_VOID(visit.begin(Command::kGoOn, 0));
  return visit.wait(Steady::now() + patient(kPauseBound));
}

// The fifo goes when runsc has put everything back; an end before that is a failure.
Result<void> GvisorDriver::let_restored_go_on(const Running& running, int root, bool& may_run) {
  {
    TRY(Fd fifo, sys::open_at(root, kGoFifo + 1, O_WRONLY | O_NONBLOCK | O_NOFOLLOW));
    if (::write(fifo.get(), "", 1) != 1) return Error::from_errno(errno, "let a sandbox go on");
    may_run = true;
  }
  Steady::time_point until = Steady::now() + patient(kStartBound);
  while (is_there(root, kGoFifo)) {
    bool ended = sys::wait_for_end(running.pidfd, kLook);
    if (!ended && Steady::now() < until) continue;
    std::lock_guard lock(mutex_);
    auto log = logs_.find(running.pid);
    if (log != logs_.end()) keep_log(log->second.get());
    return make_error(Code::kInternal, "sandbox {} did not go on from its memory: {}", running.sandbox,
                      ended ? "runsc ended" : "it took too long")
        .with_hint(fmt::format("what runsc said is in {}", tools_.log_file));
  }
  std::lock_guard lock(mutex_);
  logs_.erase(running.pid);
  return success();
}

}  // namespace atl::runner::gvisor
