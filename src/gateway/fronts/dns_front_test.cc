// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/dns_front.h"

#include "gateway/dns/wire.h"
#include "gateway/flow/parts_for_test.h"

namespace atl::gateway {
namespace {

using namespace testing;

constexpr char kOneName[] = R"([{"id": "one", "action": "allow", "hosts": ["api.example"]}])";
constexpr int kRcode = 0x0f;

// For the address of api.example.
std::string question() {
  using namespace std::string_literals;
  return dns::frame("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03"s + "api\x07" + "example" +
                    "\x00\x00\x01\x00\x01"s);
}

// The answer's code, or nothing when the stream has ended.
Task<> ask_for_name(net::Stream& stream, std::optional<int>& out) {
  std::string text = question();
  out.reset();
  if (!(co_await stream.write_all(text)).ok()) co_return;
  std::string received;
  char buffer[1024];
  while (!dns::first_framed(received)) {
    auto got = co_await stream.read_some(buffer);
    if (!got || *got == 0) co_return;
    received.append(buffer, *got);
  }
  out = (*dns::first_framed(received))[3] & kRcode;
}

TEST(DnsFront, AStreamIsAnsweredByTheRulesOfNow) {
  PartsWorld all;
  all.parts.registry.put(sandbox_with(kOneName));
  all.world.run([&](World& w) -> Task<> {
    auto [client, server] = net::stream_pair(w.loop.get_executor());
    auto then = all.parts.registry.find("isandbox");
    w.scope.spawn("dns", serve_dns_stream(all.parts, std::move(server), then, ""));
    std::optional<int> code;
    co_await ask_for_name(*client, code);
    EXPECT_EQ(code, static_cast<int>(dns::Rcode::kNoError));
    all.parts.registry.put(sandbox_with("[]"));
    co_await ask_for_name(*client, code);
    EXPECT_EQ(code, static_cast<int>(dns::Rcode::kNxDomain));
    all.parts.registry.remove("isandbox", 1);
    co_await ask_for_name(*client, code);
    EXPECT_EQ(code, std::nullopt);
  });
}

}  // namespace
}  // namespace atl::gateway
