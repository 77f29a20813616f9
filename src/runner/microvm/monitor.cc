// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/monitor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fault.h"
#include "model/machine.h"
#include "runner/names.h"
#include "runner/start_parts.h"
#include "sys/files.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace atl::runner::microvm {
namespace {

using sys::Fd;

// At most one struct, which fits into one write.
Result<model::MonitorReply> read_answer(int pipe, Millis bound) {
  pollfd item{pipe, POLLIN, 0};
  auto until = Steady::now() + bound;
  int n;
  do {
    auto left = std::chrono::duration_cast<Millis>(until - Steady::now());
    n = ::poll(&item, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return make_error(Code::kDeadline, "QEMU did not do it within {} ms", bound.count());
  model::MonitorReply reply{};
  if (::read(pipe, &reply, sizeof reply) != sizeof reply || reply.magic != model::kMachineMagic)
    return make_error(Code::kUnavailable, "atoll-qmp ended without an answer");
  reply.why[sizeof reply.why - 1] = '\0';
  return reply;
}

// Words of a program that reads hostile ones: nothing in them may drive a terminal.
std::string printable_words(const char* why) {
  std::string out(why);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

Result<MemoryPlace> ask(Launcher& launcher, const Question& question, const Fd& file, const Fd& again,
                        Millis bound) {
  LaunchOrder order{};
  order.kind = OrderKind::kMonitor;
  order.uid_base = uid_base(question.slot);
  order.resumes = file ? 0 : 1;
  TRY(Fd machine, sys::clone_mount(AT_FDCWD, question.machine));
  TRY(auto status, make_pipe());
  TRY(auto answer, make_pipe());
  PassedFds fds;
  fds.fill(-1);
  at(fds, Passed::kLower) = machine.get();
  at(fds, Passed::kStatus) = status.second.get();
  at(fds, Passed::kChannel) = question.monitor.get();
  at(fds, Passed::kState) = file.get();
  at(fds, Passed::kAgain) = again.get();
  at(fds, Passed::kAnswer) = answer.second.get();
  TRY(Launcher::Launched launched, launcher.order(order, fds));
  status.second.reset();
  answer.second.reset();
  StepTimes ignored{};
  Result<void> set_up = wait_for_setup(status.first.get(), ignored);
  if (file) FAULT("runner.save.asked");
  Result<model::MonitorReply> reply = set_up.ok() ? read_answer(answer.first.get(), bound)
                                                  : Result<model::MonitorReply>(std::move(set_up).error());
  static_cast<void>(sys::signal_process(launched.fd.get(), SIGKILL));
  if (!reply.ok()) return std::move(reply).error();
  if (reply->done == 1) return MemoryPlace{reply->bitmap_offset, reply->memory_offset, reply->memory_bytes};
  return make_error(Code::kInternal, "{}", printable_words(reply->why));
}

}  // namespace

// KERNEL: what a descriptor may do was decided when it was opened, so the reader of QEMU's answers needs no
// right over the file, and QEMU gets one by which it can only write.
Result<SavedMachine> save_machine(Launcher& launcher, const Question& question, const std::string& path,
                                  Millis bound) {
  SavedMachine saved;
  TRY(saved.file, sys::open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0444));
  TRY(saved.again, sys::open_file(path, O_RDWR));
  TRY(saved.place, ask(launcher, question, saved.file, saved.again, bound));
  return saved;
}

Result<void> resume_machine(Launcher& launcher, const Question& question, Millis bound) {
  Result<MemoryPlace> done = ask(launcher, question, Fd(), Fd(), bound);
  return done.ok() ? success() : Result<void>(std::move(done).error());
}

}  // namespace atl::runner::microvm
