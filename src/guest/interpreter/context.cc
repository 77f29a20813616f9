// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/context.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "guest/interpreter/limits.h"
#include "guest/interpreter/lines.h"

namespace atl::guest::interpreter {
namespace {

constexpr char kKernelDied[] = "KernelDied";

std::string died_line(const std::string& why) {
  return error_line(kKernelDied, why + "; its variables are lost, and the next call starts a new one", "");
}

std::string unheeding(const std::string& language) {
  return fmt::format(
      "the {} code of a client that had gone did not heed interrupts, so the kernel was killed", language);
}

}  // namespace

Context::Context(Host& host, KernelSpec spec, ContextInfo info)
    : host_(host),
      spec_(std::move(spec)),
      info_(std::move(info)),
      gate_(host.executor, 1),
      finished_(host.executor) {}

Context::~Context() = default;

Task<Result<void>> Context::ensure_kernel() {
  if (kernel_) co_return success();
  std::string name = fmt::format("{}-{}", info_.id, ++kernels_);
  kernel_ = make_kernel(host_, spec_, std::move(name));
  auto started = co_await kernel_->start(info_.directory);
  if (!started.ok()) co_await drop_kernel();
  co_return started;
}

void Context::lost_kernel(std::string how) {
  if (!kernel_) untold_ = std::move(how);
}

Task<> Context::drop_kernel() {
  if (!kernel_) co_return;
  co_await kernel_->close();
  kernel_.reset();
}

Task<Result<void>> Context::warm_up() {
  auto turn = co_await gate_.enter();
  if (closed_) co_return make_error(Code::kNotFound, "context {} was removed", info_.id);
  co_return co_await ensure_kernel();
}

Task<> Context::execute(Call call, const Environment& globals, const bool& gone, Output& output) {
  auto turn = co_await gate_.enter();
  if (gone) co_return;
  co_await run(std::move(call), globals, gone, output);
}

Task<> Context::run(Call call, const Environment& globals, const bool& gone, Output& output) {
  if (closed_) {
    co_await output.put(error_line("ContextRemoved", "this context was removed", ""));
    co_return;
  }
  if (kernel_ && kernel_->ended()) {
    untold_ =
        fmt::format("the {} kernel had ended between two calls ({})", info_.language, kernel_->end_text());
    co_await drop_kernel();
  }
  if (!untold_.empty()) {
    // Nobody was there to be told. Code that expects its variables must not run without them.
    std::string why = std::exchange(untold_, std::string());
    co_await output.put(died_line(why));
    co_return;
  }
  auto ready = co_await ensure_kernel();
  if (!ready.ok()) {
    co_await output.put(error_line(kKernelDied, ready.error().message(), ""));
    co_return;
  }
  if (gone) co_return;
  kernel_->set_environment(globals);
  running_for_ = &gone;
  auto ran = co_await kernel_->execute(std::move(call), output);
  running_for_ = nullptr;
  finished_.notify_all();
  bool heeded = !std::exchange(heeds_nothing_, false);
  if (ran.ok()) co_return;
  co_await drop_kernel();
  if (closed_)
    co_await output.put(error_line("ContextRemoved", "this context was removed while it ran", ""));
  else if (restarting_)
    co_await output.put(error_line("KernelRestarted", "this context was restarted while it ran", ""));
  else if (gone)
    untold_ = heeded ? ran.error().message() : unheeding(info_.language);
  else
    co_await output.put(died_line(ran.error().message()));
}

Task<> Context::stop(const bool& gone) {
  auto limit = Steady::now() + host_.interrupt_limit;
  while (running_for_ == &gone) {
    if (Steady::now() >= limit) {
      log::warn("code does not heed interrupts; its kernel is killed", {{"context", info_.id}});
      heeds_nothing_ = true;
      kernel_->kill();
      co_return;
    }
    kernel_->interrupt();
    co_await finished_.wait_until(std::min(limit, Steady::now() + kInterruptAgain));
  }
}

Task<Result<void>> Context::restart() {
  restarting_ = true;
  if (kernel_) kernel_->kill();
  auto turn = co_await gate_.enter();
  restarting_ = false;
  untold_.clear();
  if (closed_) co_return make_error(Code::kNotFound, "context {} was removed", info_.id);
  co_await drop_kernel();
  co_return co_await ensure_kernel();
}

Task<> Context::close() {
  closed_ = true;
  if (kernel_) kernel_->kill();
  auto turn = co_await gate_.enter();
  co_await drop_kernel();
}

}  // namespace atl::guest::interpreter
