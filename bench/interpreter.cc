// SPDX-License-Identifier: Apache-2.0
//
// bench_interpreter --port N --key K [--n 30] [--calls 300] [--pause-ms 2500] [--contexts 10]
//
// The code interpreter: from the first byte of a create to the last byte of the result of 1+1, from the pool;
// calls in a context that lives; and, in the same sandbox, the same calls by a plain client of Jupyter's to a
// kernel of its own, which is the floor. The pause lets the pool start the next sandbox and its kernel.
#include <cstdio>
#include <thread>

#include "client.h"

namespace {

// Prints one number in milliseconds per call.
constexpr char kPeer[] =
    "import jupyter_client, time\\n"
    "manager = jupyter_client.KernelManager(); manager.start_kernel()\\n"
    "client = manager.client(); client.start_channels(); client.wait_for_ready(timeout=60)\\n"
    "for n in range(%d):\\n"
    "    began = time.perf_counter()\\n"
    "    client.execute_interactive('1+1', output_hook=lambda message: None, allow_stdin=False)\\n"
    "    print((time.perf_counter() - began) * 1000)\\n"
    "manager.shutdown_kernel(now=True)\\n";

std::string run(const char* code) { return std::string("{\"code\":\"") + code + "\"}"; }

// The numbers that the peer printed, one a line of the answer's texts.
bench::Samples numbers(const std::string& answer) {
  bench::Samples out;
  std::string text;
  for (std::size_t at = 0; (at = answer.find("\"stdout\",\"text\":\"", at)) != std::string::npos;) {
    at += 17;
    text += answer.substr(at, answer.find("\",\"timestamp\"", at) - at);
  }
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find("\\u000a", at);
    if (end == std::string::npos) break;
    double ms = std::stod(text.substr(at, end - at));
    out.add(
        std::chrono::duration_cast<bench::Clock::duration>(std::chrono::duration<double, std::milli>(ms)));
    at = end + 6;
  }
  return out;
}

// Bytes in use, as the guest daemon of the sandbox counts them.
double memory_used(bench::Client& client, const bench::Sandbox& sandbox) {
  bench::Response answer =
      client.connection().request("GET", "/metrics", bench::Client::sandbox_headers(sandbox), "");
  std::size_t at = answer.body.find("\"mem_used\":");
  if (at == std::string::npos) bench::fail("metrics: " + answer.body);
  return std::stod(answer.body.substr(at + 11));
}

void make_context(bench::Client& client, const bench::Sandbox& sandbox) {
  bench::Response answer = client.connection().request("POST", "/contexts",
                                                       "E2b-Sandbox-Id: " + sandbox.id +
                                                           "\r\nE2b-Sandbox-Port: 49999\r\n"
                                                           "Content-Type: application/json\r\n",
                                                       "{\"language\":\"python\"}");
  if (answer.status != 200) bench::fail("context: " + answer.body);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  bench::Client client(options.number("port", 0), options.text("key"));
  bench::Samples create, first, whole, live;
  int rounds = options.number("n", 30), calls = options.number("calls", 300);
  auto pause = std::chrono::milliseconds(options.number("pause-ms", 2500));
  bench::Samples peer;
  double per_context = 0;
  for (int i = 0; i < rounds; ++i) {
    std::this_thread::sleep_for(pause);
    auto start = bench::Clock::now();
    bench::Sandbox sandbox = client.create(600, "", "code-interpreter-v1");
    auto created = bench::Clock::now();
    client.execute(sandbox, run("1+1"));
    auto done = bench::Clock::now();
    create.add(created - start);
    first.add(done - created);
    whole.add(done - start);
    if (i == rounds - 1) {
      std::this_thread::sleep_for(pause);  // the pool is full again, and the machine quiet
      for (int call = 0; call < calls; ++call) {
        auto began = bench::Clock::now();
        client.execute(sandbox, run("1+1"));
        live.add(bench::Clock::now() - began);
      }
      int contexts = options.number("contexts", 10);
      double before = memory_used(client, sandbox);
      for (int each = 0; each < contexts; ++each) make_context(client, sandbox);
      per_context = (memory_used(client, sandbox) - before) / contexts;
      char code[2048];
      std::snprintf(code, sizeof code, kPeer, calls);
      peer = numbers(client.execute(sandbox, run(code)));
    }
    client.kill(sandbox);
  }
  std::printf("{\"figure\":\"create to result of code\",%s}\n", whole.json().c_str());
  std::printf("{\"figure\":\"create\",%s}\n", create.json().c_str());
  std::printf("{\"figure\":\"first code\",%s}\n", first.json().c_str());
  std::printf("{\"figure\":\"code in a live context\",%s}\n", live.json().c_str());
  std::printf("{\"figure\":\"the same, plain jupyter client\",%s}\n", peer.json().c_str());
  std::printf("{\"figure\":\"memory of a context of Python\",\"bytes\":%.0f}\n", per_context);
  return 0;
}
