// SPDX-License-Identifier: Apache-2.0
//
// bench_http_load --to PORT [--address IP] [--host NAME] [--path P] [--token T] [--tls 1] MODE
//
//   --connections N --seconds S   GET after GET on N kept connections: requests per second and their latency
//   --events N                    reads one stream of N events, each with the time when it was sent: how long
//   it took
//   --hold N                      opens N streams, at most 400 a second, reads the first event of each, tells
//                                 so, and waits for a line on standard input
//   --handshakes N                N connections one after the other, each with one request
//   --serve PORT                  an upstream: /events sends an event each 25 ms, /hold one and nothing more,
//   all else
//                                 1 KB of JSON; with --certificate FILE and --key FILE over TLS
//
// One thread, epoll; it must cost less than what it measures. Certificates are not verified.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <set>
#include <thread>

#include "client.h"

namespace {

using bench::Clock;
using bench::fail;

std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

struct Target {
  sockaddr_in address{};
  std::string request;
  SSL_CTX* tls = nullptr;
  std::string host;
};

// A blocking or non-blocking connection, plain or TLS.
class Peer {
 public:
  explicit Peer(const Target& target) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&target.address), sizeof target.address) != 0)
      fail(std::string("connect: ") + std::strerror(errno));
    if (target.tls == nullptr) return;
    ssl_ = SSL_new(target.tls);
    SSL_set_fd(ssl_, fd_);
    SSL_set_tlsext_host_name(ssl_, target.host.c_str());
    if (SSL_connect(ssl_) != 1) fail("TLS handshake");
  }
  ~Peer() {
    SSL_free(ssl_);
    ::close(fd_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int fd() const { return fd_; }
  void unblock() { ::fcntl(fd_, F_SETFL, O_NONBLOCK); }
  void send(const std::string& text) {
    auto size = static_cast<int>(text.size());
    if (ssl_ != nullptr ? SSL_write(ssl_, text.data(), size) != size
                        : ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) != size)
      fail("send");
  }
  // Appends what is there; false when there is nothing now. The end of the connection ends the program.
  bool receive(std::string& to) {
    std::array<char, 16384> buffer;
    ssize_t count = 0;
    if (ssl_ != nullptr) {
      count = SSL_read(ssl_, buffer.data(), buffer.size());
      if (count <= 0 && SSL_get_error(ssl_, static_cast<int>(count)) == SSL_ERROR_WANT_READ) return false;
    } else {
      count = ::recv(fd_, buffer.data(), buffer.size(), 0);
      if (count < 0 && errno == EAGAIN) return false;
    }
    if (count <= 0) fail("the connection ended: " + to.substr(0, 200));
    to.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }

 private:
  int fd_ = -1;
  SSL* ssl_ = nullptr;
};

// True when `text` holds one whole answer; fails for one that is not 200.
bool is_whole(const std::string& text) {
  auto end = text.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  if (text.compare(9, 3, "200") != 0) fail("answer: " + text.substr(0, 300));
  auto head = text.substr(0, end + 2);
  auto length = bench::header(head, "content-length");
  if (!length.empty()) return text.size() >= end + 4 + std::stoul(length);
  return text.ends_with("0\r\n\r\n");
}

void ask(Peer& peer, const Target& target, std::string& answer) {
  answer.clear();
  peer.send(target.request);
  while (!is_whole(answer)) peer.receive(answer);
}

void load(const Target& target, int connections, int seconds) {
  struct Slot {
    std::unique_ptr<Peer> peer;
    std::string answer;
    Clock::time_point start;
  };
  std::vector<Slot> slots(static_cast<std::size_t>(connections));
  int poll = ::epoll_create1(EPOLL_CLOEXEC);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    auto& slot = slots[i];
    slot.peer = std::make_unique<Peer>(target);
    ask(*slot.peer, target, slot.answer);  // warms all that is on the way
    slot.peer->unblock();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    ::epoll_ctl(poll, EPOLL_CTL_ADD, slot.peer->fd(), &event);
  }
  bench::Samples samples;
  auto begin = Clock::now();
  auto send = [&target](Slot& slot) {
    slot.answer.clear();
    slot.start = Clock::now();
    slot.peer->send(target.request);
  };
  for (auto& slot : slots) send(slot);
  std::array<epoll_event, 64> events;
  while (bench::seconds_since(begin) < seconds) {
    int count = ::epoll_wait(poll, events.data(), events.size(), 1000);
    for (int i = 0; i < count; ++i) {
      auto& slot = slots[events[static_cast<std::size_t>(i)].data.u64];
      while (slot.peer->receive(slot.answer)) {}
      if (!is_whole(slot.answer)) continue;
      samples.add(Clock::now() - slot.start);
      send(slot);
    }
  }
  std::printf("{\"figure\":\"load\",\"connections\":%d,\"per_s\":%.0f,%s}\n", connections,
              static_cast<double>(samples.size()) / bench::seconds_since(begin), samples.json().c_str());
}

void events(const Target& target, int wanted) {
  Peer peer(target);
  auto start = Clock::now();
  peer.send(target.request);
  std::string text;
  bench::Samples lags;
  std::size_t at = 0;
  double first_ms = 0;
  while (static_cast<int>(lags.size()) < wanted) {
    peer.receive(text);
    auto arrived = now_ns();
    for (auto mark = text.find("at:", at); mark != std::string::npos; mark = text.find("at:", at)) {
      if (text.find(';', mark) == std::string::npos) break;
      if (lags.size() == 0) first_ms = bench::seconds_since(start) * 1000;
      lags.add(std::chrono::nanoseconds(arrived - std::stoll(text.substr(mark + 3))));
      at = mark + 3;
    }
  }
  std::printf("{\"figure\":\"event lag\",\"first_ms\":%.3f,%s}\n", first_ms, lags.json().c_str());
}

void hold(const Target& target, int count) {
  // A sandbox gets no more than 500 (kNewFlowsPerSecond of the runner's firewall).
  constexpr auto kEach = std::chrono::microseconds(2500);
  std::vector<std::unique_ptr<Peer>> peers;
  std::string text;
  auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_until(begin + i * kEach);
    peers.push_back(std::make_unique<Peer>(target));
    peers.back()->send(target.request);
    text.clear();
    while (text.find("at:") == std::string::npos) peers.back()->receive(text);
  }
  std::printf("{\"figure\":\"held\",\"streams\":%d}\n", count);
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
}

void handshakes(const Target& target, int count) {
  bench::Samples samples;
  std::string answer;
  auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    auto start = Clock::now();
    Peer peer(target);
    ask(peer, target, answer);
    samples.add(Clock::now() - start);
  }
  std::printf("{\"figure\":\"handshakes\",\"per_s\":%.0f,%s}\n", count / bench::seconds_since(begin),
              samples.json().c_str());
}

std::string event_chunk() {
  auto event = "data: at:" + std::to_string(now_ns()) + ";\n\n";
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", event.size());
  return size + event + "\r\n";
}

constexpr const char* kStreamHead =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

// A connection of the upstream's, plain or TLS.
class Served {
 public:
  Served(int fd, SSL_CTX* tls) : fd_(fd), ssl_(tls == nullptr ? nullptr : SSL_new(tls)) {
    if (ssl_ == nullptr) return;
    SSL_set_fd(ssl_, fd_);
    SSL_set_accept_state(ssl_);
  }
  ~Served() {
    SSL_free(ssl_);
    ::close(fd_);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  void write(const std::string& text) {
    if (ssl_ == nullptr) {
      (void)!::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    } else {
      SSL_write(ssl_, text.data(), static_cast<int>(text.size()));
    }
  }
  // Reads what is there; false at the end of the connection.
  bool read(std::string& to) {
    std::array<char, 16384> buffer;
    for (;;) {
      if (ssl_ == nullptr) {
        auto count = ::recv(fd_, buffer.data(), buffer.size(), 0);
        if (count > 0) to.append(buffer.data(), static_cast<std::size_t>(count));
        return count > 0;
      }
      ERR_clear_error();  // of other connections; SSL_get_error reads what is left of them
      int count = SSL_read(ssl_, buffer.data(), static_cast<int>(buffer.size()));
      if (count <= 0) return SSL_get_error(ssl_, count) == SSL_ERROR_WANT_READ;
      to.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }

  std::string received;

 private:
  int fd_;
  SSL* ssl_;
};

// True when the connection now gets one event after the other.
bool answer_as_upstream(Served& peer) {
  static const std::string kAnswer =
      "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1024\r\n\r\n" +
      std::string(1024, 'j');
  std::string& text = peer.received;
  if (text.find("\r\n\r\n") == std::string::npos) return false;
  bool events = text.find("/events ") != std::string::npos;
  bool stream = events || text.find("/hold ") != std::string::npos;
  peer.write(stream ? kStreamHead + event_chunk() : kAnswer);
  text.clear();
  return events;
}

SSL_CTX* server_tls(const bench::Options& options) {
  auto certificate = options.text("certificate");
  if (certificate.empty()) return nullptr;
  SSL_CTX* out = SSL_CTX_new(TLS_server_method());
  SSL_CTX_set_mode(out, SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_use_certificate_chain_file(out, certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(out, options.text("key").c_str(), SSL_FILETYPE_PEM) != 1)
    fail("the certificate or its key cannot be used");
  return out;
}

int listen_on(int port) {
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in any{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port))};
  if (::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || ::listen(listener, 4096) != 0)
    fail(std::string("listen: ") + std::strerror(errno));
  return listener;
}

int ticking_timer() {
  int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 25'000'000};
  itimerspec each{.it_interval = kTick, .it_value = kTick};
  ::timerfd_settime(timer, 0, &each, nullptr);
  return timer;
}

void serve(int port, SSL_CTX* tls) {
  int poll = ::epoll_create1(EPOLL_CLOEXEC);
  int timer = ticking_timer();
  int listener = listen_on(port);
  for (int fd : {listener, timer}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  }
  std::map<int, Served> peers;
  std::set<int> streaming;
  std::array<epoll_event, 64> ready;
  for (;;) {
    int count = ::epoll_wait(poll, ready.data(), ready.size(), -1);
    for (int i = 0; i < count; ++i) {
      int fd = ready[static_cast<std::size_t>(i)].data.fd;
      if (fd == timer) {
        std::uint64_t ticks = 0;
        (void)!::read(timer, &ticks, sizeof ticks);
        for (int open : streaming) peers.at(open).write(event_chunk());
      } else if (fd == listener) {
        int peer = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | (tls == nullptr ? 0 : SOCK_NONBLOCK));
        int on = 1;
        ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        peers.try_emplace(peer, peer, tls);
        epoll_event event{.events = EPOLLIN, .data = {.fd = peer}};
        ::epoll_ctl(poll, EPOLL_CTL_ADD, peer, &event);
      } else if (auto& peer = peers.at(fd); peer.read(peer.received)) {
        if (answer_as_upstream(peer)) streaming.insert(fd);
      } else {
        streaming.erase(fd);
        peers.erase(fd);
      }
    }
  }
}

Target target_of(const bench::Options& options) {
  Target out;
  out.address.sin_family = AF_INET;
  out.address.sin_port = htons(static_cast<std::uint16_t>(options.number("to", 0)));
  ::inet_pton(AF_INET, options.text("address", "127.0.0.1").c_str(), &out.address.sin_addr);
  out.host = options.text("host", "localhost");
  out.request = "GET " + options.text("path", "/") + " HTTP/1.1\r\nHost: " + out.host +
                "\r\nAuthorization: Bearer " + options.text("token", "from-inside") +
                "\r\nAccept: */*\r\n\r\n";
  if (options.number("tls", 0) != 0) out.tls = SSL_CTX_new(TLS_client_method());
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (int port = options.number("serve", 0); port != 0) serve(port, server_tls(options));
  auto target = target_of(options);
  if (int count = options.number("events", 0); count != 0) events(target, count);
  if (int count = options.number("hold", 0); count != 0) hold(target, count);
  if (int count = options.number("handshakes", 0); count != 0) handshakes(target, count);
  if (int count = options.number("connections", 0); count != 0)
    load(target, count, options.number("seconds", 3));
  return 0;
}
