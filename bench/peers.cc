// SPDX-License-Identifier: Apache-2.0
//
// bench_peers --name TEXT [--n 50] --command "program argument ..."
//
// Starts a program, waits for its end, and measures that, many times: what runc, bwrap and unshare take for
// the work that a create with its first command does.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <sstream>

#include "client.h"

extern char** environ;

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  std::istringstream words(options.text("command"));
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  if (command.empty()) bench::fail("--command is missing");
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  bench::Samples samples;
  for (int i = 0; i < options.number("n", 50); ++i) {
    auto start = bench::Clock::now();
    pid_t child = 0;
    int status = 0;
    if (::posix_spawnp(&child, arguments[0], &quiet, nullptr, arguments.data(), environ) != 0)
      bench::fail("cannot start " + command[0]);
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      bench::fail(options.text("name") + " ended with " + std::to_string(status));
    samples.add(bench::Clock::now() - start);
  }
  std::printf("{\"figure\":\"%s\",%s}\n", options.text("name").c_str(), samples.json().c_str());
  return 0;
}
