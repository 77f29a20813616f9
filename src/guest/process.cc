// SPDX-License-Identifier: Apache-2.0
#include "guest/process.h"

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/text.h"
#include "guest/session.h"

namespace atl::guest {

namespace asio = async::asio;
using async::use_result;

std::string_view outcome_name(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::kExited: return "exited";
    case OutcomeKind::kSignalled: return "signalled";
    case OutcomeKind::kTimedOut: return "timed_out";
    case OutcomeKind::kOutOfMemory: return "out_of_memory";
    case OutcomeKind::kKilled: return "killed";
  }
  return "exited";
}

std::string status_text(const Outcome& outcome) {
  if (outcome.signal == 0) return fmt::format("exit status {}", outcome.exit_code);
  // The words of Go's syscall.Signal, which clients compare.
  constexpr std::array<std::string_view, 16> kNames = {"",
                                                       "hangup",
                                                       "interrupt",
                                                       "quit",
                                                       "illegal instruction",
                                                       "trace/breakpoint trap",
                                                       "aborted",
                                                       "bus error",
                                                       "floating point exception",
                                                       "killed",
                                                       "user defined signal 1",
                                                       "segmentation fault",
                                                       "user defined signal 2",
                                                       "broken pipe",
                                                       "alarm clock",
                                                       "terminated"};
  auto number = static_cast<std::size_t>(outcome.signal);
  std::string text = number < kNames.size() ? fmt::format("signal: {}", kNames[number])
                                            : fmt::format("signal: signal {}", number);
  return outcome.core_dumped ? text + " (core dumped)" : text;
}

std::uint64_t parse_oom_kills(std::string_view text) {
  constexpr std::string_view kKey = "oom_kill ";
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with(kKey)) return parse_number<std::uint64_t>(line.substr(kKey.size())).value_or(0);
  }
  return 0;
}

std::uint64_t OomCounter::read() const {
  if (fd_ < 0) return 0;
  std::array<char, 512> text;
  ssize_t size = ::pread(fd_, text.data(), text.size(), 0);
  return size <= 0 ? 0 : parse_oom_kills({text.data(), static_cast<std::size_t>(size)});
}

Subscriber::Subscriber(ProcessPtr process, std::uint64_t from) : process_(std::move(process)), next_(from) {
  process_->subscribers_.push_back(this);
  process_->awaits_reader_ = false;
  process_->changed_.notify_all();
}

Subscriber::~Subscriber() {
  process_->subscribers_.remove(this);
  process_->changed_.notify_all();
}

Ring::Piece Subscriber::peek() const {
  return process_->ring_.at(next_, process_->has_terminal() ? kPtyChunk : kPipeChunk);
}

void Subscriber::skip_to(std::uint64_t offset) { next_ = offset; }

void Subscriber::taken(std::size_t bytes) {
  next_ += bytes;
  progress_ = Steady::now();
  process_->changed_.notify_all();
}

Process::Process(async::Executor executor, ProcessConfig config, Spawned spawned,
                 std::uint64_t oom_kills_before, Steady::duration subscriber_stall)
    : executor_(executor),
      config_(std::move(config)),
      pid_(spawned.pid),
      labelled_(spawned.labelled),
      changed_(executor),
      input_turn_(executor),
      oom_kills_before_(oom_kills_before),
      subscriber_stall_(subscriber_stall) {
  auto adopt = [&](sys::Fd& fd) { return std::make_unique<Descriptor>(executor_, fd.release()); };
  if (spawned.terminal) {
    auto copy = spawned.terminal.duplicate();
    terminal_fd_ = spawned.terminal.get();
    if (copy.ok()) input_ = adopt(*copy);
    outputs_.push_back({Channel::kPty, adopt(spawned.terminal)});
    return;
  }
  if (spawned.input) input_ = adopt(spawned.input);
  outputs_.push_back({Channel::kStdout, adopt(spawned.output)});
  outputs_.push_back({Channel::kStderr, adopt(spawned.errors)});
}

// A reader that has taken everything begins to owe progress with the next output.
void Process::start_clocks() {
  auto now = Steady::now();
  for (Subscriber* subscriber : subscribers_) {
    if (subscriber->next_ >= ring_.end()) subscriber->progress_ = now;
  }
}

// Holds the reader of the pipe back while a subscriber that moves would lose output, and at first while the
// one who started the process has not come yet.
Task<> Process::room_for(std::size_t bytes) {
  for (;;) {
    auto now = Steady::now();
    auto wait_until = Steady::time_point::max();
    if (awaits_reader_ && ring_.end() + bytes > capacity_) {
      auto limit = born_ + subscriber_stall_;
      if (limit <= now) {
        awaits_reader_ = false;
      } else {
        wait_until = limit;
      }
    }
    for (Subscriber* subscriber : subscribers_) {
      if (subscriber->cut_off_ || subscriber->next_ + capacity_ >= ring_.end() + bytes) continue;
      auto limit = subscriber->progress_ + subscriber_stall_;
      if (limit <= now) {
        subscriber->cut_off_ = true;
      } else {
        wait_until = std::min(wait_until, limit);
      }
    }
    if (wait_until == Steady::time_point::max()) co_return;
    co_await changed_.wait_until(wait_until);
  }
}

Task<> Process::pump([[maybe_unused]] ProcessPtr self, Output& output) {
  static std::array<char, kPipeChunk> scratch;  // one loop, and not held across a wait
  const std::size_t chunk = output.channel == Channel::kPty ? kPtyChunk : kPipeChunk;
  for (;;) {
    co_await room_for(chunk);
    if (!output.descriptor->is_open()) break;
    ssize_t got = ::read(output.descriptor->native_handle(), scratch.data(), chunk);
    if (got > 0) {
      output.taken += static_cast<std::uint64_t>(got);
      if (!forgotten_ || !subscribers_.empty()) {
        start_clocks();
        ring_.append(output.channel, {scratch.data(), static_cast<std::size_t>(got)});
        ring_.trim(capacity_);
      }
      changed_.notify_all();
      continue;
    }
    // KERNEL: a terminal whose other end is closed by everybody reads as EIO.
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) break;
    auto [error] = co_await output.descriptor->async_wait(Descriptor::wait_read, use_result);
    if (error) break;
  }
  output.finished = true;
  changed_.notify_all();
  // Closing a terminal would hang its session up, so that waits for the leader's end.
  while (output.channel == Channel::kPty && !reaped()) co_await changed_.wait();
  output.descriptor->close();
}

void Process::on_reaped(int wait_status) {
  wait_status_ = wait_status;
  reaped_at_ = Steady::now();
  for (Output& output : outputs_) {
    if (output.finished) continue;
    int waiting = 0;
    if (::ioctl(output.descriptor->native_handle(), FIONREAD, &waiting) != 0) waiting = 0;
    output.due = output.taken + static_cast<std::uint64_t>(waiting);
  }
  wake_input();
  changed_.notify_all();
}

std::uint64_t Process::written() const {
  std::uint64_t end = ring_.end();
  for (const Output& output : outputs_) {
    int waiting = 0;
    bool known = !output.finished && ::ioctl(output.descriptor->native_handle(), FIONREAD, &waiting) == 0;
    if (known) end += static_cast<std::uint64_t>(waiting);
  }
  return end;
}

void Process::forget() {
  forgotten_ = true;
  if (subscribers_.empty()) ring_.trim(0);
}

bool Process::held_open() const {
  return std::any_of(outputs_.begin(), outputs_.end(), [](const Output& output) { return !output.finished; });
}

void Process::close_outputs() {
  for (Output& output : outputs_) output.descriptor->close();
}

bool Process::output_complete(bool grace_over) const {
  return std::all_of(outputs_.begin(), outputs_.end(), [&](const Output& output) {
    return output.finished || (grace_over && output.taken >= output.due);
  });
}

// Waits for the output that the process wrote, and a moment for children that still hold its pipes.
Task<> Process::conclude([[maybe_unused]] ProcessPtr self, const OomCounter& oom) {
  std::uint64_t oom_kills = oom.read();
  auto grace = reaped_at_ + kHolderGrace;
  while (!output_complete(Steady::now() >= grace)) {
    auto until = Steady::now() < grace ? grace : Steady::time_point::max();
    co_await changed_.wait_until(until);
  }
  outcome_ = judge(oom_kills);
  if (input_) input_->close();
  input_.reset();
  changed_.notify_all();
}

Outcome Process::judge(std::uint64_t oom_kills_now) const {
  int status = *wait_status_;
  Outcome outcome;
  if (WIFSIGNALED(status)) {
    outcome = {OutcomeKind::kSignalled, -1, WTERMSIG(status), WCOREDUMP(status) != 0};
  } else {
    outcome = {OutcomeKind::kExited, WEXITSTATUS(status), 0, false};
  }
  if (expired_) {
    outcome.kind = OutcomeKind::kTimedOut;
  } else if (outcome.signal == SIGKILL) {
    if (killed_)
      outcome.kind = OutcomeKind::kKilled;
    else if (oom_kills_now > oom_kills_before_)
      outcome.kind = OutcomeKind::kOutOfMemory;
  }
  return outcome;
}

void Process::kill_session() {
  if (!reaped()) guest::kill_session(pid_);
}

void Process::expire() {
  if (reaped()) return;
  expired_ = true;
  kill_session();
}

Result<void> Process::send_signal(int signal) {
  if (reaped()) return make_error(Code::kNotFound, "process with pid {} not found", pid_);
  if (signal == SIGKILL) {
    killed_ = true;
    kill_session();
    return success();
  }
  // The process leads its group, so a shell's children get the signal as they would from a terminal.
  if (::kill(-pid_, signal) != 0) return Error::from_errno(errno, fmt::format("signal process {}", pid_));
  return success();
}

Result<void> Process::resize(TerminalSize size) {
  if (!has_terminal()) return make_error(Code::kConflict, "process with pid {} has no terminal", pid_);
  if (reaped()) return make_error(Code::kNotFound, "process with pid {} not found", pid_);
  return set_terminal_size(terminal_fd_, size);
}

Result<void> Process::close_input() {
  if (has_terminal())
    return make_error(Code::kConflict, "process with pid {} has a terminal: send it Ctrl-D (byte 4) in place",
                      pid_);
  if (input_) input_->close();
  input_.reset();
  wake_input();
  return success();
}

void Process::wake_input() {
  if (input_) input_->cancel();
  input_turn_.notify_all();
}

Task<Result<void>> Process::write_input(std::string data, std::optional<std::uint64_t> offset,
                                        const bool* abandoned) {
  if (input_waiting_ >= kMaxInputWaiters)
    co_return make_error(Code::kExhausted, "{} messages for process {} wait already: it does not read",
                         input_waiting_, pid_);
  ++input_waiting_;
  while (input_busy_ && !*abandoned) co_await input_turn_.wait();
  --input_waiting_;
  if (*abandoned) co_return Error(Code::kCancelled, "the client has gone");
  input_busy_ = true;
  Result<void> result = success();
  std::string_view rest = data;
  if (offset && *offset > input_taken_) {
    result = make_error(Code::kConflict, "inputOffset {}: process {} has had only {} bytes of input", *offset,
                        pid_, input_taken_);
  } else if (offset) {
    rest.remove_prefix(
        static_cast<std::size_t>(std::min<std::uint64_t>(input_taken_ - *offset, rest.size())));
  }
  while (!rest.empty() && result.ok()) {
    if (!input_ || reaped()) {
      result = make_error(Code::kConflict, "process with pid {} has no open input", pid_);
      break;
    }
    ssize_t put = ::write(input_->native_handle(), rest.data(), rest.size());
    if (put > 0) {
      rest.remove_prefix(static_cast<std::size_t>(put));
      input_taken_ += static_cast<std::size_t>(put);
    } else if (put < 0 && errno == EAGAIN) {
      co_await input_->async_wait(Descriptor::wait_write, use_result);
      if (*abandoned) result = Error(Code::kCancelled, "the client has gone");
    } else if (errno != EINTR) {
      result = Error::from_errno(errno, fmt::format("write to process {}", pid_)).with_code(Code::kConflict);
    }
  }
  input_busy_ = false;
  input_turn_.notify_all();
  co_return result;
}

}  // namespace atl::guest
