// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/input_pump.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace atl::cli {

InputPump::InputPump(async::Executor executor, int fd)
    : executor_(executor), fd_(fd), wake_(::eventfd(0, EFD_CLOEXEC)), arrived_(executor) {
  thread_ = std::thread([this] { read_loop(); });
}

InputPump::~InputPump() {
  stop();
  thread_.join();
}

void InputPump::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    ended_ = true;
  }
  room_.notify_all();
  std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  arrived_.notify_all();
}

bool InputPump::wait_readable() {
  pollfd items[2] = {{fd_, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  for (;;) {
    int n = ::poll(items, 2, -1);
    if (n < 0 && errno == EINTR) continue;
    return n > 0 && (items[1].revents & POLLIN) == 0;
  }
}

void InputPump::read_loop() {
  // Signals are the loop's business; one that lands here would only interrupt a read.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::vector<char> block(64 * 1024);
  for (;;) {
    ssize_t n = wait_readable() ? ::read(fd_, block.data(), block.size()) : 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    std::unique_lock lock(mutex_);
    if (n > 0) buffer_.append(block.data(), static_cast<std::size_t>(n));
    if (n <= 0) ended_ = true;
    if (stopping_) return;
    // stop() has not been called, so the pump and its event outlive this post.
    async::asio::post(executor_, [this] { arrived_.notify_all(); });
    if (n <= 0) return;
    room_.wait(lock, [this] { return buffer_.size() < kBound || stopping_; });
    if (stopping_) return;
  }
}

std::optional<std::string> InputPump::take() {
  std::lock_guard lock(mutex_);
  if (buffer_.empty() && !ended_) return std::nullopt;
  std::string out = std::exchange(buffer_, {});
  room_.notify_all();
  return out;
}

async::Task<std::string> InputPump::next() {
  for (;;) {
    auto taken = take();
    if (taken) co_return std::move(*taken);
    co_await arrived_.wait();
  }
}

}  // namespace atl::cli
