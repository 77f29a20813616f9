// SPDX-License-Identifier: Apache-2.0
//
// bench_rest --port N --key K [--tier container] [--n 100] [--disk-n 20] [--copies 10] [--memory-copies 10]
//            [--memory FOLDER]
//
// Pause and resume, in memory and on disk; the first command after a resume; a command that wakes a sandbox;
// snapshot, and fork into ten, of the disk and with memory; a create that nothing waits for. One after the
// other, each from the first byte of the request to the last of the answer. Without --disk-n or --copies
// these parts are left out (a tier may not have them). With --memory, the runner's folder of stored memory:
// what a pause leaves there that no other has too.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "client.h"

namespace {

struct Timer {
  bench::Clock::time_point start = bench::Clock::now();
  bench::Clock::duration lap() {
    auto now = bench::Clock::now();
    auto passed = now - start;
    start = now;
    return passed;
  }
};

void print(const char* name, const bench::Samples& samples) {
  std::printf("{\"figure\":\"%s\",%s}\n", name, samples.json().c_str());
}

void expect(const bench::Response& response, int status, const char* what) {
  if (response.status != status)
    bench::fail(std::string(what) + ": " + std::to_string(response.status) + " " + response.body);
}

// Of files with one name: what has several is kept for others anyhow.
double stored_mib(const std::filesystem::path& folder) {
  double bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    struct stat info{};
    if (::stat(file.path().c_str(), &info) == 0 && info.st_nlink == 1)
      bytes += static_cast<double>(info.st_blocks) * 512;
  }
  return bytes / (1 << 20);
}

void print_stored(std::vector<double> mib) {
  if (mib.empty()) return;
  std::sort(mib.begin(), mib.end());
  std::printf("{\"figure\":\"stored by a pause\",\"p50_mib\":%.1f,\"max_mib\":%.1f,\"n\":%zu}\n",
              mib[(mib.size() - 1) / 2], mib.back(), mib.size());
}

// Pauses and resumes `sandbox`; prints three figures, and with a folder `stored` a fourth.
void rest(bench::Client& client, const bench::Sandbox& sandbox, int rounds, bool memory,
          const std::string& stored = {}) {
  bench::Samples pause, resume, first;
  std::vector<double> mib;
  std::string path = "/sandboxes/" + sandbox.id;
  for (int i = 0; i < rounds; ++i) {
    Timer timer;
    expect(client.post(path + "/pause", memory ? "{}" : R"({"memory":false})"), 204, "pause");
    pause.add(timer.lap());
    if (!stored.empty()) mib.push_back(stored_mib(stored + "/" + sandbox.id));
    timer.lap();
    expect(client.post(path + "/connect", R"({"timeout":600})"), 201, "resume");
    resume.add(timer.lap());
    client.run(sandbox, {"/bin/echo", "hello"});
    first.add(timer.lap());
  }
  print_stored(std::move(mib));
  print(memory ? "pause" : "pause to disk", pause);
  print(memory ? "resume" : "resume from disk", resume);
  print(memory ? "first command after a resume" : "first command after a resume from disk", first);
}

void wake(bench::Client& client, const bench::Sandbox& sandbox, int rounds) {
  bench::Samples woken;
  for (int i = 0; i < rounds; ++i) {
    expect(client.post("/sandboxes/" + sandbox.id + "/pause", "{}"), 204, "pause");
    Timer timer;
    client.run(sandbox, {"/bin/echo", "hello"});
    woken.add(timer.lap());
  }
  print("a command that wakes it", woken);
}

const char* asked(bool memory) { return memory ? "true" : "false"; }

void snapshots(bench::Client& client, const bench::Sandbox& sandbox, int rounds, bool memory) {
  bench::Samples taken;
  for (int i = 0; i < rounds; ++i) {
    Timer timer;
    bench::Response made = client.post("/sandboxes/" + sandbox.id + "/snapshots",
                                       std::string(R"({"memory":)") + asked(memory) + "}");
    taken.add(timer.lap());
    expect(made, 201, "snapshot");
    std::string id = bench::json_text(made.body, "snapshotID");
    expect(client.remove("/v1/snapshots/" + id), 204, "delete snapshot");
  }
  print(memory ? "snapshot with memory" : "snapshot", taken);
}

// Children that have answered a command each.
void forks(bench::Client& client, const bench::Sandbox& sandbox, int rounds, bool memory) {
  bench::Samples answered, working;
  for (int i = 0; i < rounds; ++i) {
    Timer timer;
    bench::Response made =
        client.post("/sandboxes/" + sandbox.id + "/fork",
                    std::string(R"({"count":10,"timeout":600,"memory":)") + asked(memory) + "}");
    auto forked = timer.start;
    answered.add(timer.lap());
    expect(made, 201, "fork");
    std::vector<bench::Sandbox> children;
    for (std::size_t at = 0; (at = made.body.find("\"sandboxID\"", at)) != std::string::npos; ++at) {
      std::string_view rest(made.body.data() + at, made.body.size() - at);
      children.push_back({bench::json_text(rest, "sandboxID"), bench::json_text(rest, "envdAccessToken")});
    }
    if (children.size() != 10) bench::fail("fork: " + made.body);
    for (const bench::Sandbox& child : children) client.run(child, {"/bin/echo", "hello"});
    working.add(bench::Clock::now() - forked);
    for (const bench::Sandbox& child : children) client.kill(child);
  }
  print(memory ? "fork into ten with memory" : "fork into ten", answered);
  print(
      memory ? "fork into ten with memory, each has run a command" : "fork into ten, each has run a command",
      working);
}

// Of the sandbox's own kind, to the first command's result.
void creates(bench::Client& client, const std::string& more, int rounds) {
  bench::Samples made;
  for (int i = 0; i < rounds; ++i) {
    Timer timer;
    bench::Sandbox sandbox = client.create(600, more);
    client.run(sandbox, {"/bin/echo", "hello"});
    made.add(timer.lap());
    client.kill(sandbox);
  }
  print("first command, nothing started ahead", made);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  bench::Client client(options.number("port", 0), options.text("key"));
  std::string more =
      ",\"isolation\":\"" + options.text("tier", "container") + "\",\"autoResume\":{\"enabled\":true}";
  bench::Sandbox sandbox = client.create(3600, more);
  client.run(sandbox, {"/bin/echo", "hello"});
  rest(client, sandbox, options.number("n", 100), true, options.text("memory"));
  wake(client, sandbox, options.number("n", 100));
  if (int rounds = options.number("disk-n", 0); rounds > 0) rest(client, sandbox, rounds, false);
  if (int rounds = options.number("copies", 0); rounds > 0) {
    snapshots(client, sandbox, rounds, false);
    forks(client, sandbox, rounds, false);
  }
  if (int rounds = options.number("memory-copies", 0); rounds > 0) {
    snapshots(client, sandbox, rounds, true);
    forks(client, sandbox, rounds, true);
    creates(client, more, rounds * 5);
  }
  client.kill(sandbox);
  return 0;
}
