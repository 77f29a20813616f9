// SPDX-License-Identifier: Apache-2.0
//
// The runner's socket: one control connection at a time, whose peer the kernel vouches for; requests go to a
// bounded set of worker threads, since every step of a start may block.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "model/runner_protocol.h"
#include "runner/launcher.h"
#include "runner/service.h"
#include "sys/fd.h"

namespace atl::runner {

struct ServerOptions {
  std::string socket;
  uid_t control_uid = 0;
  gid_t control_gid = 0;
  std::size_t workers = 4;       // of each lane
  std::size_t max_queue = 4096;  // requests that wait; more are answered at once with kUnavailable
};

// Requests that may take seconds have workers of their own: what a machine that boots or a disk that is
// copied holds back is not the rest of the host.
enum class Lane : std::size_t { kQuick, kSlow };
Lane lane_of(std::span<const std::byte> request);
inline constexpr std::size_t kLanes = 2;

// The exact size of a request's message, 0 for a type that is no request.
std::size_t request_size(std::uint16_t type);

// Shared with workers that still work on its requests when it is replaced.
struct Connection {
  explicit Connection(sys::Fd fd) : socket(std::move(fd)) {}
  void send(std::span<const std::byte> message);
  void close();
  bool closed();

  const sys::Fd socket;

 private:
  std::mutex mutex_;
  bool broken_ = false;
};
using ConnectionPtr = std::shared_ptr<Connection>;

// A request that waits, or that a worker has.
struct Job {
  Job(ConnectionPtr from, std::span<const std::byte> request);
  std::span<const std::byte> request() const { return std::span(bytes).first(size); }
  model::wire::Type type() const;
  std::string sandbox() const;  // of those that name one

  ConnectionPtr connection;
  std::array<std::byte, model::wire::kMaxMessage> bytes;
  std::size_t size;
  Steady::time_point arrived;
};

// The requests that wait. A stop takes away the start of its sandbox that still waits, and waits for the one
// that a worker has: nothing runs after the answer to its stop. It and other quick ones wait here, and not
// with a worker, while a start, a pause or a resume of their sandbox goes on: they would only wait for it
// there, and keep quick ones of others waiting. What makes something new is not begun for a connection that
// is closed, since control counts it as never asked for.
class JobQueue {
 public:
  explicit JobQueue(std::size_t max) : max_(max) {}
  enum class Put { kTaken, kFull };
  // `called_off`: starts that the job has taken away.
  Put put(Job job, std::vector<Job>& called_off);
  // Blocks while nothing can be done; nothing at the end.
  std::optional<Job> take(Lane lane);
  // Of each that was taken.
  void done(const Job& job);
  void end();

 private:
  std::optional<Job> next(Lane lane);

  const std::size_t max_;  // in a lane
  std::mutex mutex_;
  std::array<std::condition_variable, kLanes> work_;
  std::array<std::deque<Job>, kLanes> queues_;
  std::multiset<std::string> busy_;  // sandboxes that a start, a pause or a resume is at work on
  bool ended_ = false;
};

class Server {
 public:
  Server(ServerOptions options, Service& service, Launcher& launcher, Firewall& firewall);
  ~Server();

  // Serves until SIGTERM or SIGINT (success) or the launcher's end (an error). Sandboxes are left as they
  // are.
  Result<void> run();

  // Control is told what is known of the host now. From any thread, also before run().
  void host_changed();

 private:
  Result<void> open();
  Result<void> watch(int fd, std::uint64_t tag);
  void accept_connection();
  void read_request();
  void enqueue(std::span<const std::byte> bytes);
  void read_exit();
  void adopted_ended(std::uint64_t launch_id);
  void announce(const std::optional<model::wire::ExitedEvent>& event);
  void firewall_changed();
  void tell_host();
  void work(Lane lane);
  void close_connection();

  const ServerOptions options_;
  Service& service_;
  Launcher& launcher_;
  Firewall& firewall_;
  sys::Fd epoll_, listener_, signals_, ruleset_;
  const sys::Fd host_;  // counts host_changed()
  ConnectionPtr connection_;
  std::map<std::uint64_t, sys::Fd> adopted_;  // pidfds by launch id

  JobQueue jobs_;
  std::vector<std::thread> workers_;
};

}  // namespace atl::runner
