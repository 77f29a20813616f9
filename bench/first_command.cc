// SPDX-License-Identifier: Apache-2.0
//
// bench_first_command --port N --key K [--tier container] [--n 200] [--pause-ms 30]
//
// Create a sandbox, run its first command, end it; one after the other. The figure is from the first byte of
// the create request to the last byte of the command's result. Whether a ready sandbox is there is decided by
// how the server was started; the pause between two rounds lets its pool refill.
#include <cstdio>
#include <thread>

#include "client.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  bench::Client client(options.number("port", 0), options.text("key"));
  bench::Samples create, command, whole, shell;
  int rounds = options.number("n", 200);
  auto pause = std::chrono::milliseconds(options.number("pause-ms", 30));
  for (int i = 0; i < rounds; ++i) {
    auto start = bench::Clock::now();
    bench::Sandbox sandbox =
        client.create(600, ",\"isolation\":\"" + options.text("tier", "container") + "\"");
    auto created = bench::Clock::now();
    client.run(sandbox, {"/bin/echo", "hello"});
    auto done = bench::Clock::now();
    client.run(sandbox, {"/bin/bash", "-l", "-c", "echo hello"});
    shell.add(bench::Clock::now() - done);
    client.kill(sandbox);
    create.add(created - start);
    command.add(done - created);
    whole.add(done - start);
    std::this_thread::sleep_for(pause);
  }
  std::printf("{\"figure\":\"create to first command\",%s}\n", whole.json().c_str());
  std::printf("{\"figure\":\"create\",%s}\n", create.json().c_str());
  std::printf("{\"figure\":\"first command\",%s}\n", command.json().c_str());
  std::printf("{\"figure\":\"second command, bash -l -c\",%s}\n", shell.json().c_str());
  return 0;
}
