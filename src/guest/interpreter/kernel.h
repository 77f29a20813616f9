// SPDX-License-Identifier: Apache-2.0
//
// Kernel: a process that runs code of one language and keeps its variables. All that it says is data of the
// sandbox's user, as hostile as the code.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/scope.h"
#include "guest/process.h"

namespace atl::guest::interpreter {

using async::Task;
using Environment = std::map<std::string, std::string>;

// The variable that names the sandbox. When it changes, the kernel is a copy of another sandbox's, and draws
// its random numbers anew.
inline constexpr char kSandboxVariable[] = "E2B_SANDBOX_ID";
// "" when it is not there.
inline std::string value_of(const Environment& environment, const std::string& name) {
  auto found = environment.find(name);
  return found != environment.end() ? found->second : std::string();
}

// One piece of code to run.
struct Call {
  std::string code;
  Environment environment;  // of this call alone
};

// Takes the lines that go to the client. Waits while the client is slow; drops them when it has gone.
class Output {
 public:
  virtual ~Output() = default;
  virtual Task<> put(std::string line) = 0;
};

// How kernels are spoken to: Jupyter's messages, or our own protocol (kernels/README.md), whose commands are
// JSON or, for a shell, plain fields.
enum class Speech : std::uint8_t { kJupyter, kLines, kFields };

// What a kernel is started from.
struct KernelSpec {
  std::string language;
  Speech speech = Speech::kLines;
  // argv; "{connection_file}" (kJupyter) and "{commands}", "{events}", "{interrupts}" (ours) are replaced by
  // paths.
  std::vector<std::string> command;
  Environment environment;         // beside the interpreter's own
  bool takes_environment = false;  // kJupyter: variables of calls come with the request
};

// What all kernels of one interpreter share.
struct Host {
  async::Executor executor;
  ProcessTable& processes;
  std::string run_directory;         // 0700; sockets and pipes of kernels lie in it
  Environment environment;           // of every kernel
  Steady::duration interrupt_limit;  // of code, then its kernel is killed
};

// Use from its loop only.
class Kernel {
 public:
  virtual ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Starts the process in `directory` and waits until it takes code. kUnavailable, with what it printed, when
  // it ends before that.
  Task<Result<void>> start(std::string directory);
  // Runs `call` and returns when the kernel is ready for the next one. One at a time. kUnavailable when the
  // kernel has ended.
  virtual Task<Result<void>> execute(Call call, Output& output) = 0;
  // Variables of every later call. They are known before the first one. One that is no longer named goes
  // away.
  void set_environment(Environment environment) { environment_ = std::move(environment); }
  // As ^C in a terminal, for the code of the call that runs. Code that has not begun is interrupted when it
  // begins. Nothing between two calls: a kernel that does its own work must not be hit.
  void interrupt();
  // Kills the process with all that it started, also one that is only being started; what waits for it ends.
  void kill();
  bool ended() const { return ended_; }
  // How it ended: "signal: killed (out of memory)".
  std::string end_text() const;
  // Ends the tasks. Must have been called before the kernel is destroyed.
  Task<> close();

 protected:
  Kernel(Host& host, KernelSpec spec, std::string name);
  // Connects to the process that has just been started.
  virtual Task<Result<void>> attach() = 0;
  // Paths for the command line; made before the start.
  virtual Result<std::map<std::string, std::string>> prepare() = 0;
  // Takes what the process said before it ended. Bounded in time, except by a client that is slow.
  virtual Task<> drain() = 0;
  // Ends what attach() began.
  virtual void detach() = 0;
  // For execute(): the call goes to the kernel; its code has begun, if it had not; the call is over.
  void call_sent() { code_ = CodeState::kSent; }
  void code_begun();
  void call_over();
  // Beside the signal, for a kernel that is told which call is meant.
  virtual void tell_interrupt() {}

  Host& host_;
  const KernelSpec spec_;
  const std::string prefix_;  // of its files in the run directory
  ProcessPtr process_;
  async::Event changed_;
  async::Scope scope_;
  Environment environment_;
  bool ended_ = false;

 private:
  enum class CodeState : std::uint8_t { kNone, kSent, kBegun };
  Task<> watch();
  Task<Result<void>> start_process(std::string directory);

  CodeState code_ = CodeState::kNone;
  bool interrupt_waits_ = false;  // for the code to begin
  bool killed_ = false;
};

// One for `spec`. `name` is unique among the kernels of this interpreter's life.
std::unique_ptr<Kernel> make_kernel(Host& host, KernelSpec spec, std::string name);

}  // namespace atl::guest::interpreter
