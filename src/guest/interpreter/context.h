// SPDX-License-Identifier: Apache-2.0
//
// Context: a kernel with a name for its clients. It runs one piece of code at a time, in the order of the
// calls, and outlives its kernel: when that ends, the client is told once and the next call gets a new one.
#pragma once

#include <memory>
#include <string>

#include "async/gate.h"
#include "guest/interpreter/kernel.h"
#include "guest/interpreter/languages.h"

namespace atl::guest::interpreter {

// What a client may know.
struct ContextInfo {
  std::string id;
  std::string language;
  std::string directory;
};

// Use from its loop only. Held by the table and by the calls that run in it.
class Context {
 public:
  Context(Host& host, KernelSpec spec, ContextInfo info);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const ContextInfo& info() const { return info_; }
  // It had a kernel in an earlier life of the interpreter: the next call is told, and not run.
  void lost_kernel(std::string how);
  // Starts the kernel ahead of its first call.
  Task<Result<void>> warm_up();
  // Waits for its turn and runs `call` with `globals` in the kernel's environment. What goes wrong in the
  // code or with the kernel is told through `output`. `gone` turns true when nobody waits for the answer any
  // more; then call stop().
  Task<> execute(Call call, const Environment& globals, const bool& gone, Output& output);
  // Interrupts the call that runs for `gone`, again and again, and ends its kernel when that does not help.
  Task<> stop(const bool& gone);
  // A new kernel; the old one's state is lost. A call that runs ends with an error.
  Task<Result<void>> restart();
  // Ends the kernel. Calls that wait end with an error.
  Task<> close();
  std::size_t waiting() const { return gate_.waiting(); }

 private:
  Task<Result<void>> ensure_kernel();
  Task<> drop_kernel();
  Task<> run(Call call, const Environment& globals, const bool& gone, Output& output);

  Host& host_;
  const KernelSpec spec_;
  const ContextInfo info_;
  async::Gate gate_;
  std::unique_ptr<Kernel> kernel_;
  const bool* running_for_ = nullptr;  // `gone` of the call that the kernel runs
  async::Event finished_;              // a call has ended
  std::uint64_t kernels_ = 0;          // made so far
  std::string untold_;                 // how a kernel ended whose client had gone
  bool heeds_nothing_ = false;         // the kernel was killed because its code went on
  bool restarting_ = false;
  bool closed_ = false;
};

// Shared by the table and by calls under way.
using ContextPtr = std::shared_ptr<Context>;

}  // namespace atl::guest::interpreter
