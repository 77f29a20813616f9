// SPDX-License-Identifier: Apache-2.0
//
// bench_runner_start --socket PATH --build UUID [--n 200] [--pause-ms 50]
//
// The runner's own part of a start, over its wire and with no control: one sandbox after the other, from
// nothing but ready slots and disks. One line per step, then the whole as the caller sees it, then the stop.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "client.h"
#include "model/runner_protocol.h"

namespace {

namespace wire = atl::model::wire;

constexpr std::array<const char*, wire::kStartSteps> kSteps = {"queue",   "slot", "disk",   "cgroup",
                                                               "clone",   "maps", "mounts", "pivot",
                                                               "confine", "exec", "total",  "prepare"};

int connect_to(const std::string& path) {
  int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    bench::fail("cannot connect to " + path);
  return fd;
}

template <class Reply, class Request>
Reply call(int fd, Request request, wire::Type type, wire::Type reply_type) {
  static std::uint64_t next = 1;
  request.header = {wire::kMagic, wire::kVersion, static_cast<std::uint16_t>(type), next++};
  if (::send(fd, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) bench::fail("the runner is gone");
  for (;;) {
    Reply reply{};
    if (::recv(fd, &reply, sizeof reply, 0) <= 0) bench::fail("the runner is gone");
    if (reply.header.type != static_cast<std::uint16_t>(reply_type)) continue;
    if (reply.status.ok == 0) bench::fail(reply.status.message.str());
    return reply;
  }
}

wire::StartRequest request_for(const std::string& id, const std::string& build) {
  wire::StartRequest request{};
  request.sandbox.set(id);
  request.generation = 1;
  request.build.set(build);
  request.tier = static_cast<std::uint8_t>(atl::model::Tier::kContainer);
  request.internet = 1;
  request.cpu_millis = 1000;
  request.processes = 256;
  request.open_files = 4096;
  request.memory_bytes = 512ull << 20;
  request.disk_bytes = 4096ull << 20;
  return request;
}

void print(const char* step, const bench::Samples& samples) {
  std::printf("{\"figure\":\"runner start: %s\",%s}\n", step, samples.json().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  int fd = connect_to(options.text("socket"));
  int rounds = options.number("n", 200);
  std::array<bench::Samples, wire::kStartSteps> steps;
  bench::Samples seen, stop;
  for (int i = 0; i < rounds; ++i) {
    char id[24];
    std::snprintf(id, sizeof id, "ibench%015d", i);
    auto began = bench::Clock::now();
    auto started = call<wire::StartReply>(fd, request_for(id, options.text("build")), wire::Type::kStart,
                                          wire::Type::kStartReply);
    seen.add(bench::Clock::now() - began);
    for (std::size_t step = 0; step < kSteps.size(); ++step) {
      steps[step].add(std::chrono::microseconds(started.step_us[step]));
    }
    wire::SandboxRef ref{};
    ref.sandbox.set(id);
    began = bench::Clock::now();
    call<wire::StopReply>(fd, ref, wire::Type::kStop, wire::Type::kStopReply);
    stop.add(bench::Clock::now() - began);
    // The pools refill in quiet moments; how fast they do is another figure.
    ::poll(nullptr, 0, options.number("pause-ms", 50));
  }
  for (std::size_t step = 0; step < kSteps.size(); ++step) print(kSteps[step], steps[step]);
  print("as the caller sees it", seen);
  print("stop", stop);
  ::close(fd);
}
