// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/dns_channel.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace atl::gateway {

namespace asio = async::asio;

namespace {
constexpr int kTryMs = 1500;
constexpr int kTries = 2;

// c-ares keeps process-wide tables; made once, never taken back.
bool library_ready() {
  static const bool kReady = ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS;
  return kReady;
}

std::optional<IpAddress> address_of(const ares_addrinfo_node& node) {
  if (node.ai_addr == nullptr) return std::nullopt;
  if (node.ai_family == AF_INET && node.ai_addrlen >= static_cast<ares_socklen_t>(sizeof(sockaddr_in))) {
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(node.ai_addr)->sin_addr, bytes.size());
    return IpAddress::v4(bytes);
  }
  if (node.ai_family == AF_INET6 && node.ai_addrlen >= static_cast<ares_socklen_t>(sizeof(sockaddr_in6))) {
    std::array<std::uint8_t, 16> bytes{};
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(node.ai_addr)->sin6_addr, bytes.size());
    return IpAddress::v6(bytes);
  }
  return std::nullopt;
}
}  // namespace

// The descriptor is c-ares'; it is given back before c-ares closes it.
struct DnsChannel::Socket {
  Socket(const async::Executor& executor, ares_socket_t fd) : descriptor(executor, fd) {}
  ~Socket() {
    if (descriptor.is_open()) (void)descriptor.release();
  }
  asio::posix::stream_descriptor descriptor;
  bool wants[2] = {false, false};    // to write, to read
  bool waiting[2] = {false, false};  // the same
};

DnsChannel::~DnsChannel() { stop(); }

void DnsChannel::stop() {
  timer_.cancel();
  if (channel_ != nullptr) ares_destroy(std::exchange(channel_, nullptr));
  sockets_.clear();
}

Result<void> DnsChannel::start(const std::vector<std::string>& servers, bool hosts_file) {
  if (!library_ready()) return make_error(Code::kInternal, "start the DNS client: out of memory");
  ares_options options{};
  char lookups[3] = "fb";
  // Names are absolute: no search domain of this host may turn one into another.
  options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES;
  options.timeout = kTryMs;
  options.tries = kTries;
  options.lookups = hosts_file ? lookups : lookups + 1;
  options.sock_state_cb = socket_state;
  options.sock_state_cb_data = this;
  int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB;
#ifdef ARES_OPT_QUERY_CACHE
  // c-ares 1.31 and later (Debian 13) keep answers by themselves, up to an hour. How long an answer counts is
  // for the resolver alone to decide.
  mask |= ARES_OPT_QUERY_CACHE;
  options.qcache_max_ttl = 0;
#endif
  if (int failed = ares_init_options(&channel_, &options, mask); failed != ARES_SUCCESS)
    return make_error(Code::kInternal, "start the DNS client: {}", ares_strerror(failed));
  std::string list;
  for (const auto& server : servers) list.append(list.empty() ? "" : ",").append(server);
  if (list.empty()) return success();
  if (int failed = ares_set_servers_ports_csv(channel_, list.c_str()); failed != ARES_SUCCESS)
    return make_error(Code::kInvalid, "DNS servers '{}': {}", list, ares_strerror(failed));
  return success();
}

void DnsChannel::ask(const std::string& name, std::function<void(DnsAnswer)> done) {
  if (channel_ == nullptr) {
    DnsAnswer gone;
    gone.status = ARES_EDESTRUCTION;
    return done(std::move(gone));
  }
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = ARES_AI_NOSORT;
  auto question = std::make_unique<std::function<void(DnsAnswer)>>(std::move(done));
  ares_getaddrinfo(channel_, name.c_str(), nullptr, &hints, answered, question.release());
  arm();
}

void DnsChannel::answered(void* pointer, int status, int, ares_addrinfo* info) {
  std::unique_ptr<std::function<void(DnsAnswer)>> question(
      static_cast<std::function<void(DnsAnswer)>*>(pointer));
  DnsAnswer out;
  out.status = status;
  std::optional<std::int64_t> seconds;
  auto shorten = [&seconds](int ttl) {
    seconds = std::min<std::int64_t>(seconds.value_or(ttl), std::max(ttl, 0));
  };
  for (auto* alias = info != nullptr ? info->cnames : nullptr; alias != nullptr; alias = alias->next)
    shorten(alias->ttl);
  for (auto* node = info != nullptr ? info->nodes : nullptr; node != nullptr; node = node->ai_next) {
    shorten(node->ai_ttl);
    auto address = address_of(*node);
    if (address && std::find(out.addresses.begin(), out.addresses.end(), *address) == out.addresses.end())
      out.addresses.push_back(*address);
  }
  out.seconds = seconds.value_or(0);
  if (info != nullptr) ares_freeaddrinfo(info);
  (*question)(std::move(out));
}

void DnsChannel::socket_state(void* self, ares_socket_t fd, int readable, int writable) {
  static_cast<DnsChannel*>(self)->watch(fd, readable != 0, writable != 0);
}

void DnsChannel::watch(ares_socket_t fd, bool readable, bool writable) {
  auto found = sockets_.find(fd);
  if (!readable && !writable) {
    if (found == sockets_.end()) return;
    (void)found->second->descriptor.release();
    sockets_.erase(found);
    return;
  }
  if (found == sockets_.end()) found = sockets_.emplace(fd, std::make_shared<Socket>(executor_, fd)).first;
  auto socket = found->second;
  socket->wants[true] = readable;
  socket->wants[false] = writable;
  wait(socket, true);
  wait(socket, false);
}

void DnsChannel::wait(const std::shared_ptr<Socket>& socket, bool reading) {
  if (!socket->wants[reading] || socket->waiting[reading] || !socket->descriptor.is_open()) return;
  socket->waiting[reading] = true;
  auto kind = reading ? asio::posix::descriptor_base::wait_read : asio::posix::descriptor_base::wait_write;
  auto ready = [self = weak_from_this(), socket, reading](const boost::system::error_code& error) {
    socket->waiting[reading] = false;
    auto channel = self.lock();
    if (error || !channel || !socket->descriptor.is_open() || !socket->wants[reading]) return;
    auto fd = socket->descriptor.native_handle();
    channel->process(reading ? fd : ARES_SOCKET_BAD, reading ? ARES_SOCKET_BAD : fd);
    channel->wait(socket, reading);
  };
  socket->descriptor.async_wait(kind, std::move(ready));
}

void DnsChannel::process(ares_socket_t readable, ares_socket_t writable) {
  if (channel_ == nullptr) return;
  ares_process_fd(channel_, readable, writable);
  arm();
}

void DnsChannel::arm() {
  if (channel_ == nullptr) return;
  timeval space{};
  const auto* next = ares_timeout(channel_, nullptr, &space);
  if (next == nullptr) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(std::chrono::seconds(next->tv_sec) + std::chrono::microseconds(next->tv_usec));
  timer_.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
    auto channel = self.lock();
    if (!error && channel) channel->process(ARES_SOCKET_BAD, ARES_SOCKET_BAD);
  });
}

}  // namespace atl::gateway
