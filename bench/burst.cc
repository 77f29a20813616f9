// SPDX-License-Identifier: Apache-2.0
//
// bench_burst --port N --key K [--n 100]
//
// As many clients as sandboxes, all at the same moment: create, first command. Then, while all of them live,
// a second command in each proves that they are alive at the same instant.
#include <atomic>
#include <barrier>
#include <cstdio>
#include <mutex>

#include "client.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  int count = options.number("n", 100);
  bench::Samples whole;
  std::mutex lock;
  std::barrier ready(count), all_live(count);
  std::atomic<int> second{0};
  auto start = bench::Clock::now();
  std::atomic<double> wall{0};
  bench::in_threads(count, [&](int i) {
    bench::Client client(options.number("port", 0), options.text("key"));
    ready.arrive_and_wait();
    if (i == 0) start = bench::Clock::now();
    auto began = bench::Clock::now();
    bench::Sandbox sandbox = client.create();
    client.run(sandbox, {"/bin/echo", "hello"});
    auto took = bench::Clock::now() - began;
    {
      std::lock_guard guard(lock);
      whole.add(took);
    }
    all_live.arrive_and_wait();
    if (i == 0) wall = bench::seconds_since(start);
    if (client.run(sandbox, {"/bin/echo", "hello"}) == "aGVsbG8K") ++second;
    all_live.arrive_and_wait();
    client.kill(sandbox);
  });
  std::printf("{\"figure\":\"burst of %d\",%s,\"all_ready_s\":%.3f,\"alive_together\":%d}\n", count,
              whole.json().c_str(), wall.load(), second.load());
  return second == count ? 0 : 1;
}
