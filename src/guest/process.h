// SPDX-License-Identifier: Apache-2.0
//
// Processes started through the API: their output, subscribers, input, deadline and end.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/event.h"
#include "async/scope.h"
#include "guest/limits.h"
#include "guest/ring.h"
#include "guest/spawn.h"
#include "guest/workers.h"

namespace atl::guest {

// What the client asked for, as List shows it.
struct ProcessConfig {
  std::string command;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::string directory;  // as asked, may be empty
  std::string tag;
  std::string label;     // our extension: the identity of what it sends; empty: the sandbox's own
  bool service = false;  // our extension: that it runs is no work, so the sandbox may sleep
};

// Why a process is no more.
enum class OutcomeKind { kExited, kSignalled, kTimedOut, kOutOfMemory, kKilled };
std::string_view outcome_name(OutcomeKind kind);  // "exited", "signalled", "timed_out", ...

// How a process ended. `exit_code` as Go has it: -1 when a signal ended it.
struct Outcome {
  OutcomeKind kind = OutcomeKind::kExited;
  int exit_code = 0;
  int signal = 0;
  bool core_dumped = false;
};
// "exit status 1", "signal: killed", "signal: segmentation fault (core dumped)".
std::string status_text(const Outcome& outcome);

// Reads a counter of processes killed for want of memory.
class OomCounter {
 public:
  explicit OomCounter(int fd = -1) : fd_(fd) {}
  std::uint64_t read() const;  // 0 when this host has none

 private:
  int fd_;
};
// The N of a line "oom_kill N".
std::uint64_t parse_oom_kills(std::string_view text);

class Process;
// Shared by the table and by those who read its output.
using ProcessPtr = std::shared_ptr<Process>;

// One reader of a process's output. Lives in the task that serves the reader.
class Subscriber {
 public:
  Subscriber(ProcessPtr process, std::uint64_t from);
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  Process& process() { return *process_; }
  std::uint64_t next() const { return next_; }
  // The piece to send now, empty when there is none; taken() moves on by what was sent.
  Ring::Piece peek() const;
  void skip_to(std::uint64_t offset);
  void taken(std::size_t bytes);
  // Did not keep up and lost its hold on the process: the client must come again with next().
  bool cut_off() const { return cut_off_; }

 private:
  friend class Process;
  ProcessPtr process_;
  std::uint64_t next_;
  Steady::time_point progress_ = Steady::now();
  bool cut_off_ = false;
};

// Use from its loop only.
class Process : public std::enable_shared_from_this<Process> {
 public:
  Process(async::Executor executor, ProcessConfig config, Spawned spawned, std::uint64_t oom_kills_before,
          Steady::duration subscriber_stall);

  pid_t pid() const { return pid_; }
  const ProcessConfig& config() const { return config_; }
  const Ring& ring() const { return ring_; }
  bool labelled() const { return labelled_; }
  bool has_terminal() const { return terminal_fd_ >= 0; }
  bool reaped() const { return wait_status_.has_value(); }
  // The end is known and the output before it is complete.
  const std::optional<Outcome>& outcome() const { return outcome_; }
  std::size_t subscribers() const { return subscribers_.size(); }
  async::Event& changed() { return changed_; }
  // Offset in the output of what is in its pipes now, behind all that was read of them.
  std::uint64_t written() const;

  // Writes to stdin or to the terminal, in the order of the calls. Waits while the process does not read.
  // With `offset` the part that an earlier call has written is left out, so that a client whose connection
  // broke can send again what was not answered; kConflict when bytes before it are missing.
  Task<Result<void>> write_input(std::string data, std::optional<std::uint64_t> offset,
                                 const bool* abandoned);
  Result<void> close_input();
  Result<void> resize(TerminalSize size);
  Result<void> send_signal(int signal);
  // Kills every process of the session; the outcome will say that the time was over.
  void expire();
  bool expired() const { return expired_; }
  // Ends waits of write_input whose caller has gone.
  void wake_input();

 private:
  friend class ProcessTable;
  friend class Subscriber;
  using Descriptor = async::asio::posix::stream_descriptor;
  struct Output {
    Channel channel;
    std::unique_ptr<Descriptor> descriptor;
    std::uint64_t taken = 0;
    std::uint64_t due = 0;  // bytes that were in the pipe when the process ended
    bool finished = false;
  };

  Task<> pump(ProcessPtr self, Output& output);
  void start_clocks();
  Task<> room_for(std::size_t bytes);
  Task<> conclude(ProcessPtr self, const OomCounter& oom);
  bool output_complete(bool grace_over) const;
  void on_reaped(int wait_status);
  // Nobody can ask for the output any more: it is only drained from now on.
  void forget();
  bool held_open() const;
  // Stops draining; whoever still writes gets SIGPIPE.
  void close_outputs();
  Outcome judge(std::uint64_t oom_kills_now) const;
  void kill_session();

  async::Executor executor_;
  ProcessConfig config_;
  pid_t pid_;
  bool labelled_;
  int terminal_fd_ = -1;
  std::list<Output> outputs_;
  std::unique_ptr<Descriptor> input_;
  async::Event changed_;
  async::Event input_turn_;
  bool input_busy_ = false;
  std::uint64_t input_taken_ = 0;  // bytes that the process was given
  std::size_t input_waiting_ = 0;
  Ring ring_;
  std::size_t capacity_ = kRingBytes;
  std::list<Subscriber*> subscribers_;
  bool awaits_reader_ = true;  // nobody has read yet
  Steady::time_point born_ = Steady::now();
  std::optional<int> wait_status_;
  Steady::time_point reaped_at_{};
  std::optional<Outcome> outcome_;
  std::uint64_t oom_kills_before_;
  Steady::duration subscriber_stall_;
  std::optional<Steady::time_point> deadline_;  // of the request that started it
  bool expired_ = false;
  bool killed_ = false;
  bool forgotten_ = false;
};

// All processes of the sandbox that the API knows.
class ProcessTable {
 public:
  ProcessTable(async::Executor executor, Workers& workers, OomCounter oom,
               Steady::duration subscriber_stall = kSubscriberStall);
  ~ProcessTable();

  struct Start {
    ProcessConfig config;
    std::function<Result<SpawnRequest>()> prepare;  // runs on a worker, just before the start
    std::optional<Steady::time_point> deadline;
  };
  Task<Result<ProcessPtr>> start(Start start);

  // Alive, or ended not long ago.
  ProcessPtr find(pid_t pid) const;
  ProcessPtr find(std::string_view tag) const;
  std::vector<ProcessPtr> alive() const;
  // Takes what waitpid(2) said about any child.
  void on_exit(pid_t pid, int wait_status);
  std::size_t starting() const { return starting_; }
  // When one that is no service started or ended last.
  Steady::time_point last_change() const { return last_change_; }
  // The deadlines of processes stand still from one to the other: a paused sandbox must not find them passed.
  void hold_clocks();
  void release_clocks();
  bool clocks_held() const { return held_since_.has_value(); }
  // Kills everything and waits for the tasks; for tests and an orderly end.
  Task<> shut_down();

 private:
  struct Retained {
    ProcessPtr process;
    Steady::time_point until;
  };
  void forget(std::list<Retained>::iterator which);
  // What was the case when a start began.
  struct Before {
    std::uint64_t oom_kills;
    std::uint64_t exits;
  };
  struct EarlyExit {
    int wait_status;
    std::uint64_t number;  // counts exits, so that one from before a start is never taken for its end
  };
  ProcessPtr admit(Start start, Spawned spawned, Before before);
  Task<> watch_deadline(ProcessPtr process);
  Task<> retire();
  void share_memory();
  void make_room();

  async::Executor executor_;
  Workers& workers_;
  OomCounter oom_;
  async::Scope scope_;
  Steady::duration subscriber_stall_;
  std::unordered_map<pid_t, ProcessPtr> alive_;
  std::list<Retained> retained_;               // oldest first
  std::list<std::weak_ptr<Process>> holders_;  // forgotten, but a child holds the output open; oldest first
  std::unordered_map<pid_t, EarlyExit> early_exits_;  // seen while a start was under way; one per pid at most
  std::uint64_t exits_ = 0;
  std::size_t starting_ = 0;
  Steady::time_point last_change_ = Steady::now();
  std::optional<Steady::time_point> held_since_;
};

}  // namespace atl::guest
