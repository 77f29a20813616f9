// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/kernel.h"

#include <unistd.h>

#include <csignal>

#include "async/within.h"
#include "base/text.h"
#include "guest/interpreter/jupyter_kernel.h"
#include "guest/interpreter/limits.h"
#include "guest/interpreter/line_kernel.h"
#include "guest/interpreter/run_directory.h"

namespace atl::guest::interpreter {
namespace {

constexpr std::size_t kShownOutput = 2000;  // of a kernel that does not start

std::string filled(std::string text, const std::map<std::string, std::string>& paths) {
  for (const auto& [name, value] : paths) {
    std::string mark = "{" + name + "}";
    for (std::size_t at; (at = text.find(mark)) != std::string::npos;) text.replace(at, mark.size(), value);
  }
  return text;
}

// The end of what a process printed.
std::string last_output(const Process& process) {
  const Ring& ring = process.ring();
  std::string out;
  for (std::uint64_t at = ring.begin(); at < ring.end();) {
    Ring::Piece piece = ring.at(at, kTextPiece);
    out.append(piece.data);
    at = piece.offset + piece.data.size();
    if (piece.data.empty()) break;
  }
  return out.size() > kShownOutput ? out.substr(out.size() - kShownOutput) : out;
}

}  // namespace

Kernel::Kernel(Host& host, KernelSpec spec, std::string name)
    : host_(host),
      spec_(std::move(spec)),
      prefix_(host.run_directory + "/" + name),
      changed_(host.executor),
      scope_(host.executor) {}

Kernel::~Kernel() = default;

Task<Result<void>> Kernel::start_process(std::string directory) {
  CO_TRY_VOID(keep_run_directory(host_.run_directory));
  CO_TRY(auto paths, prepare());
  SpawnRequest request;
  request.command = filled(spec_.command.front(), paths);
  for (std::size_t i = 1; i < spec_.command.size(); ++i)
    request.arguments.push_back(filled(spec_.command[i], paths));
  request.environment = host_.environment;
  for (const auto& [name, value] : spec_.environment) request.environment[name] = value;
  request.directory = std::move(directory);
  request.identity.uid = ::geteuid();
  request.identity.gid = ::getegid();
  request.stdin_open = false;
  ProcessTable::Start start;
  start.config.command = request.command;
  start.prepare = [request] { return Result<SpawnRequest>(request); };
  CO_TRY(process_, co_await host_.processes.start(std::move(start)));
  // What it prints is not held back for a first reader.
  Subscriber seen(process_, 0);
  co_return success();
}

Task<Result<void>> Kernel::start(std::string directory) {
  CO_TRY_VOID(co_await start_process(std::move(directory)));
  scope_.spawn("kernel end", watch());
  if (killed_) kill();
  std::string what = fmt::format("start of the {} kernel", spec_.language);
  auto attached = co_await async::within(kKernelStart, what, attach());
  if (attached.ok()) co_return success();
  kill();
  while (!ended_) co_await changed_.wait();
  std::string printed = last_output(*process_);
  std::string text = fmt::format("the {} kernel did not start: {} ({})", spec_.language,
                                 attached.error().message(), end_text());
  if (!printed.empty()) text += "; it printed: " + printed;
  co_return Error(Code::kUnavailable, std::move(text));
}

Task<> Kernel::watch() {
  while (!process_->outcome()) co_await process_->changed().wait();
  co_await drain();
  ended_ = true;
  detach();
  changed_.notify_all();
  process_->changed().notify_all();
}

void Kernel::interrupt() {
  interrupt_waits_ = code_ == CodeState::kSent;
  if (code_ != CodeState::kBegun || !process_ || process_->reaped()) return;
  tell_interrupt();
  (void)process_->send_signal(SIGINT);
}

void Kernel::code_begun() {
  if (code_ != CodeState::kSent) return;
  code_ = CodeState::kBegun;
  if (interrupt_waits_) interrupt();
}

void Kernel::call_over() {
  code_ = CodeState::kNone;
  interrupt_waits_ = false;
}

void Kernel::kill() {
  killed_ = true;
  if (process_ && !process_->reaped()) (void)process_->send_signal(SIGKILL);
}

std::string Kernel::end_text() const {
  if (!process_ || !process_->outcome()) return "it runs";
  const Outcome& outcome = *process_->outcome();
  std::string text = status_text(outcome);
  return outcome.kind == OutcomeKind::kOutOfMemory ? text + ", out of memory" : text;
}

Task<> Kernel::close() {
  kill();
  while (process_ && !ended_) co_await changed_.wait();
  scope_.cancel();
  co_await scope_.join();
}

std::unique_ptr<Kernel> make_kernel(Host& host, KernelSpec spec, std::string name) {
  if (spec.speech == Speech::kJupyter)
    return std::make_unique<JupyterKernel>(host, std::move(spec), std::move(name));
  return std::make_unique<LineKernel>(host, std::move(spec), std::move(name));
}

}  // namespace atl::guest::interpreter
