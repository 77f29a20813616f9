// SPDX-License-Identifier: Apache-2.0
//
// bench_command --port N --key K [--tier container] [--n 2000] [--clients 8] [--seconds 5]
//
// Commands in a running sandbox: one after the other for the percentiles, then from several clients for the
// rate.
#include <atomic>
#include <cstdio>

#include "client.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  int port = options.number("port", 0);
  std::string key = options.text("key");
  bench::Client client(port, key);
  bench::Sandbox sandbox = client.create(600, ",\"isolation\":\"" + options.text("tier", "container") + "\"");
  bench::Samples direct, shell;
  for (int i = 0; i < 50; ++i) client.run(sandbox, {"/bin/true"});
  for (int i = 0; i < options.number("n", 2000); ++i) {
    auto start = bench::Clock::now();
    client.run(sandbox, {"/bin/true"});
    direct.add(bench::Clock::now() - start);
  }
  for (int i = 0; i < options.number("n", 2000) / 10; ++i) {
    auto start = bench::Clock::now();
    client.run(sandbox, {"/bin/bash", "-l", "-c", "true"});
    shell.add(bench::Clock::now() - start);
  }
  int clients = options.number("clients", 8);
  double seconds = options.number("seconds", 5);
  std::atomic<long> done{0};
  auto start = bench::Clock::now();
  bench::in_threads(clients, [&](int) {
    bench::Client own(port, key);
    while (bench::seconds_since(start) < seconds) {
      own.run(sandbox, {"/bin/true"});
      ++done;
    }
  });
  double rate = static_cast<double>(done) / bench::seconds_since(start);
  client.kill(sandbox);
  std::printf("{\"figure\":\"command\",%s,\"per_second\":%.0f,\"clients\":%d}\n", direct.json().c_str(), rate,
              clients);
  std::printf("{\"figure\":\"command, bash -l -c\",%s}\n", shell.json().c_str());
  return 0;
}
