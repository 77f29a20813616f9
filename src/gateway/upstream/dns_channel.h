// SPDX-License-Identifier: Apache-2.0
//
// DnsChannel: c-ares driven by Asio. It asks; remembering answers is the resolver's.
#pragma once

#include <ares.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "gateway/names/ip_address.h"

namespace atl::gateway {

// What one question ended with.
struct DnsAnswer {
  int status = ARES_SUCCESS;
  std::vector<IpAddress> addresses;  // in the order received, without repetitions
  std::int64_t seconds = 0;          // the shortest time to live of all records
};

// Use from one loop.
class DnsChannel : public std::enable_shared_from_this<DnsChannel> {
 public:
  explicit DnsChannel(async::Executor executor) : executor_(executor), timer_(std::move(executor)) {}
  DnsChannel(const DnsChannel&) = delete;
  DnsChannel& operator=(const DnsChannel&) = delete;
  ~DnsChannel();

  Result<void> start(const std::vector<std::string>& servers, bool hosts_file);
  // Calls back once, perhaps before it returns; with ARES_EDESTRUCTION when the channel goes.
  void ask(const std::string& name, std::function<void(DnsAnswer)> done);
  // Ends all questions with ARES_ECANCELLED.
  void stop();

 private:
  struct Socket;
  static void socket_state(void* self, ares_socket_t fd, int readable, int writable);
  static void answered(void* question, int status, int timeouts, ares_addrinfo* info);
  void watch(ares_socket_t fd, bool readable, bool writable);
  void wait(const std::shared_ptr<Socket>& socket, bool reading);
  void process(ares_socket_t readable, ares_socket_t writable);
  void arm();

  async::Executor executor_;
  async::asio::steady_timer timer_;
  ares_channel channel_ = nullptr;
  std::map<ares_socket_t, std::shared_ptr<Socket>> sockets_;
};

}  // namespace atl::gateway
