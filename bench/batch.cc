// SPDX-License-Identifier: Apache-2.0
//
// bench_batch --port N --key K [--steps 100] [--delay-ms 20]
//
// Many small steps in one request against as many calls, over a link with a round trip of `delay-ms`: a relay
// of this program holds all bytes back by half of it in each direction, because not every kernel has
// netem(8). The steps write small files; calls use one kept connection.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <thread>

#include "client.h"

namespace {

// Holds back what it carries. One thread per connection, for as long as the program runs.
class SlowLink {
 public:
  SlowLink(int target, std::chrono::milliseconds one_way) : target_(target), one_way_(one_way) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = local(0);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      bench::fail("cannot make the slow link");
    port_ = ntohs(address.sin_port);
    std::thread([this] { accept_all(); }).detach();
  }
  int port() const { return port_; }

 private:
  struct Block {
    bench::Clock::time_point due;
    std::string bytes;
  };
  static sockaddr_in local(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void accept_all() {
    for (;;) {
      int client = ::accept(listener_, nullptr, nullptr);
      int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address = local(target_);
      if (client < 0 || ::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        bench::fail("the slow link has no end");
      int on = 1;
      for (int fd : {client, server}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      std::thread([this, client, server] { carry(client, server); }).detach();
    }
  }
  void carry(int client, int server) {
    int ends[2] = {client, server};
    std::deque<Block> queues[2];
    for (;;) {
      pollfd watched[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      int wait = queues[0].empty() && queues[1].empty() ? -1 : 1;
      if (::poll(watched, 2, wait) < 0) break;
      for (int side = 0; side < 2; ++side) {
        if ((watched[side].revents & (POLLIN | POLLHUP)) == 0) continue;
        std::string bytes(64 * 1024, '\0');
        ssize_t got = ::recv(ends[side], bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got <= 0) return close_both(client, server);
        bytes.resize(static_cast<std::size_t>(got));
        queues[side].push_back({bench::Clock::now() + one_way_, std::move(bytes)});
      }
      for (int side = 0; side < 2; ++side) {
        while (!queues[side].empty() && queues[side].front().due <= bench::Clock::now()) {
          const std::string& bytes = queues[side].front().bytes;
          if (::send(ends[1 - side], bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
            return close_both(client, server);
          queues[side].pop_front();
        }
      }
    }
    close_both(client, server);
  }
  static void close_both(int client, int server) {
    ::close(client);
    ::close(server);
  }

  int target_;
  std::chrono::milliseconds one_way_;
  int listener_ = -1;
  int port_ = 0;
};

std::string headers(const bench::Sandbox& sandbox) {
  return bench::Client::sandbox_headers(sandbox) + "Content-Type: application/json\r\n";
}

double milliseconds(bench::Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  int steps = options.number("steps", 100), delay = options.number("delay-ms", 20);
  bench::Client client(options.number("port", 0), options.text("key"));
  bench::Sandbox sandbox = client.create();
  SlowLink link(options.number("port", 0), std::chrono::milliseconds(delay) / 2);
  bench::Connection connection(link.port());
  std::string body;
  // The first request opens the connection, for both alike.
  auto one = [&](int i) {
    std::string path = "f" + std::to_string(i);
    return "{\"write\":\"" + path + "\",\"content\":\"" + path + "\"}";
  };
  auto post = [&](const std::string& text) {
    auto answer = connection.request("POST", "/batch", headers(sandbox), "{\"steps\":[" + text + "]}");
    if (answer.status != 200 || answer.body.find("{\"end\":{\"ok\":true}}") == std::string::npos)
      bench::fail("batch: " + std::to_string(answer.status) + " " + answer.body);
  };
  post(one(0));
  auto start = bench::Clock::now();
  for (int i = 0; i < steps; ++i) post(one(i));
  auto calls = bench::Clock::now() - start;
  for (int i = 0; i < steps; ++i) body += (i > 0 ? "," : "") + one(i);
  bench::Samples batches;
  for (int round = 0; round < 10; ++round) {
    start = bench::Clock::now();
    post(body);
    batches.add(bench::Clock::now() - start);
  }
  client.kill(sandbox);
  std::printf("{\"figure\":\"calls\",\"ms\":%.1f,\"n\":%d}\n", milliseconds(calls), steps);
  std::printf("{\"figure\":\"batch\",%s}\n", batches.json().c_str());
  std::printf("{\"figure\":\"ratio\",\"times\":%.1f}\n", milliseconds(calls) / batches.percentile(50));
  return 0;
}
