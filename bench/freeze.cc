// SPDX-License-Identifier: Apache-2.0
//
// bench_freeze --folder DIR [--n 100]
//
// What a pause and a resume cannot be cheaper than: a group of sleeping processes frozen and let go by writes
// to the kernel's own file, until the kernel says so; and one write to a file in DIR that is on the disk when
// it returns, as each transition in a store is.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "client.h"

namespace {

constexpr int kProcesses = 4;  // as in a sandbox that waits

// Where the unified tree is mounted.
std::string unified_tree() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, folder, type;
    words >> device >> folder >> type;
    if (type == "cgroup2") return folder;
  }
  bench::fail("no cgroup2 is mounted");
}

void put(const std::string& path, const std::string& text) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, text.data(), text.size()) < 0) bench::fail("write " + path);
  ::close(fd);
}

bool frozen(const std::string& group) {
  std::ifstream events(group + "/cgroup.events");
  std::stringstream text;
  text << events.rdbuf();
  return text.str().find("frozen 1") != std::string::npos;
}

bench::Clock::duration turn(const std::string& group, bool freeze) {
  auto start = bench::Clock::now();
  put(group + "/cgroup.freeze", freeze ? "1" : "0");
  while (frozen(group) != freeze) {}
  return bench::Clock::now() - start;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  int rounds = options.number("n", 100);
  std::string group = unified_tree() + "/bench-freeze-" + std::to_string(::getpid());
  if (::mkdir(group.c_str(), 0755) != 0) bench::fail("mkdir " + group + " (needs root)");
  for (int i = 0; i < kProcesses; ++i) {
    pid_t child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    put(group + "/cgroup.procs", std::to_string(child));
  }
  bench::Samples freeze, thaw, write;
  for (int i = 0; i < rounds; ++i) {
    freeze.add(turn(group, true));
    thaw.add(turn(group, false));
  }
  put(group + "/cgroup.kill", "1");
  for (int i = 0; i < kProcesses; ++i) ::wait(nullptr);
  ::rmdir(group.c_str());
  std::string file = options.text("folder", "/tmp") + "/bench-freeze";
  int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  for (int i = 0; i < rounds; ++i) {
    auto start = bench::Clock::now();
    if (::write(fd, block.data(), block.size()) < 0 || ::fdatasync(fd) != 0) bench::fail("write " + file);
    write.add(bench::Clock::now() - start);
  }
  ::unlink(file.c_str());
  std::printf("{\"figure\":\"freeze\",%s}\n", freeze.json().c_str());
  std::printf("{\"figure\":\"thaw\",%s}\n", thaw.json().c_str());
  std::printf("{\"figure\":\"durable write\",%s}\n", write.json().c_str());
  return 0;
}
