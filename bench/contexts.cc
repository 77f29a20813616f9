// SPDX-License-Identifier: Apache-2.0
//
// bench_contexts --port N --key K [--sandboxes 20] [--contexts 10] [--rounds 20]
//
// Many contexts under load: in each sandbox so many contexts of Python, all of which run code at the same
// time, round after round. Every answer must be that of its own context. The figure is one call among all the
// others.
#include <cstdio>
#include <mutex>

#include "client.h"

namespace {

std::string create_context(bench::Connection& connection, const bench::Sandbox& sandbox) {
  bench::Response answer = connection.request("POST", "/contexts",
                                              "E2b-Sandbox-Id: " + sandbox.id +
                                                  "\r\nE2b-Sandbox-Port: 49999\r\n"
                                                  "Content-Type: application/json\r\n",
                                              "{\"language\":\"python\"}");
  if (answer.status != 200) bench::fail("context: " + std::to_string(answer.status) + " " + answer.body);
  return bench::json_text(answer.body, "id");
}

struct Context {
  bench::Sandbox sandbox;
  std::string id;
  int number;
};

void run(bench::Client& client, const Context& context, const std::string& code,
         const std::string& expected) {
  std::string answer =
      client.execute(context.sandbox, "{\"context_id\":\"" + context.id + "\",\"code\":\"" + code + "\"}");
  if (!expected.empty() && bench::json_text(answer, "text") != expected)
    bench::fail("context " + std::to_string(context.number) + " answered " + answer);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  int sandboxes = options.number("sandboxes", 20), each = options.number("contexts", 10);
  int rounds = options.number("rounds", 20), port = options.number("port", 0);
  std::string key = options.text("key");
  bench::Client client(port, key);
  std::vector<Context> contexts;
  auto began = bench::Clock::now();
  for (int i = 0; i < sandboxes; ++i) {
    bench::Sandbox sandbox = client.create(900, "", "code-interpreter-v1");
    for (int j = 0; j < each; ++j) {
      int number = static_cast<int>(contexts.size());
      contexts.push_back({sandbox, create_context(client.connection(), sandbox), number});
    }
  }
  double made = bench::seconds_since(began);
  std::mutex mutex;
  bench::Samples all;
  began = bench::Clock::now();
  bench::in_threads(static_cast<int>(contexts.size()), [&](int i) {
    const Context& context = contexts[static_cast<std::size_t>(i)];
    bench::Client own(port, key);
    bench::Samples samples;
    run(own, context, "mine = " + std::to_string(context.number), "");
    for (int round = 0; round < rounds; ++round) {
      auto start = bench::Clock::now();
      run(own, context, "sum(range(1000)) * 0 + mine", std::to_string(context.number));
      samples.add(bench::Clock::now() - start);
    }
    std::lock_guard lock(mutex);
    all.merge(samples);
  });
  double ran = bench::seconds_since(began);
  for (std::size_t i = 0; i < contexts.size(); i += static_cast<std::size_t>(each))
    client.kill(contexts[i].sandbox);
  std::printf("{\"figure\":\"contexts\",\"n\":%zu,\"made_s\":%.1f,\"calls_per_s\":%.0f}\n", contexts.size(),
              made, static_cast<double>(contexts.size()) * rounds / ran);
  std::printf("{\"figure\":\"one call among all\",%s}\n", all.json().c_str());
  return 0;
}
