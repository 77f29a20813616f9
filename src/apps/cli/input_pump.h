// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "async/event.h"
#include "sys/fd.h"

namespace atl::cli {

// Reads standard input on a thread of its own. The event loop cannot: it would set O_NONBLOCK on a file
// description that is shared with the caller's shell, and epoll(7) refuses regular files.
class InputPump {
 public:
  InputPump(async::Executor executor, int fd);
  ~InputPump();  // does not wait for input: a blocked read is woken
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

  // What has arrived, at most 256 KiB; empty at the end of input, or after stop().
  async::Task<std::string> next();
  void stop();

 private:
  void read_loop();
  bool wait_readable();
  std::optional<std::string> take();  // nullopt: nothing yet

  static constexpr std::size_t kBound = 256 * 1024;  // unread bytes; beyond it the writer of our pipe waits
  async::Executor executor_;
  int fd_;
  sys::Fd wake_;
  async::Event arrived_;  // loop side
  std::mutex mutex_;      // guards what follows
  std::condition_variable room_;
  std::string buffer_;
  bool ended_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace atl::cli
