// SPDX-License-Identifier: Apache-2.0
//
// What an egress proxy answers. The first byte says how the bytes are cut, whether we log in and what is
// asked for. What follows a good answer is the target's, to the byte; a proxy that chose no login gets none.
#include <array>

#include "base/check.h"
#include "gateway/upstream/socks5.h"
#include "support/memory_stream.h"

namespace {

using namespace atl;

constexpr std::string_view kUser = "user", kPassword = "password";
constexpr std::array<const char*, 3> kTargets{"target.example:443", "9.9.9.9:80", "[2001:db8::1]:443"};

// Bytes of the answer that says yes, which begins at `from`.
std::size_t end_of_answer(std::string_view input, std::size_t from) {
  auto byte = [&](std::size_t at) { return static_cast<unsigned char>(input.at(from + at)); };
  std::size_t address = byte(3) == 1 ? 4 : byte(3) == 4 ? 16 : 1u + byte(4);
  return from + 4 + address + 2;
}

gateway::Task<> connect(std::string input, std::size_t step, bool login, std::string target) {
  std::string said;
  test_support::MemoryStream stream(input, step, &said);
  gateway::Proxy proxy{*gateway::parse_authority("proxy.example:1080", 0), "", Secret()};
  if (login) proxy = {proxy.authority, std::string(kUser), Secret(std::string(kPassword))};
  auto done = co_await gateway::socks5_connect(stream, proxy, *gateway::parse_authority(target, 0));
  bool chosen = input.size() >= 2 && input[0] == 5 && input[1] == (login ? 2 : 0);
  CHECK(chosen || said.size() == 3, "more was said than which ways to log in there are");
  if (!done.ok()) co_return;
  CHECK(chosen, "connected without a choice");
  std::size_t end = end_of_answer(input, login ? 4 : 2);
  CHECK(end <= input.size(), "connected by less than an answer");
  std::string rest;
  std::array<char, 64> buffer{};
  while (true) {
    auto count = co_await stream.read_some(buffer);
    if (!count.ok() || *count == 0) break;
    rest.append(buffer.data(), *count);
  }
  CHECK(rest == input.substr(end), "what the target says was cut");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::size_t step = data[0] >> 4;
  if (step == 0) step = size;
  async::asio::io_context loop(1);
  async::asio::co_spawn(
      loop, connect(std::move(input), step, (data[0] & 1) != 0, kTargets[(data[0] >> 1) % kTargets.size()]),
      async::asio::detached);
  loop.run();
  return 0;
}
