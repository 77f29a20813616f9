// SPDX-License-Identifier: Apache-2.0
//
// bench_transfer --port N --key K [--mib 1024]
//
// One file up and down, through ingress and the guest daemon, onto the sandbox's disk. The program waits for
// a line on standard input before it ends the sandbox, so that bench/run can read the guest daemon's peak
// memory.
#include <cstdio>
#include <iostream>

#include "client.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  bench::Client client(options.number("port", 0), options.text("key"));
  bench::Sandbox sandbox = client.create();
  std::uint64_t size = static_cast<std::uint64_t>(options.number("mib", 1024)) << 20;
  const std::string path = "/files?path=/home/user/big&username=user";
  auto start = bench::Clock::now();
  if (int status = client.connection().upload(path, bench::Client::sandbox_headers(sandbox), size);
      status != 200)
    bench::fail("upload: " + std::to_string(status));
  double up = bench::seconds_since(start);
  start = bench::Clock::now();
  std::uint64_t received = 0;
  if (int status = client.connection().download(path, bench::Client::sandbox_headers(sandbox), received);
      status != 200)
    bench::fail("download: " + std::to_string(status));
  double down = bench::seconds_since(start);
  if (received != size) bench::fail("download: " + std::to_string(received) + " bytes");
  double mb = static_cast<double>(size) / 1e6;
  std::printf(
      "{\"figure\":\"file "
      "transfer\",\"sandbox\":\"%s\",\"bytes\":%llu,\"up_mb_s\":%.0f,\"down_mb_s\":%.0f}\n",
      sandbox.id.c_str(), static_cast<unsigned long long>(size), mb / up, mb / down);
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  client.kill(sandbox);
  return 0;
}
