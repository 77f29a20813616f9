// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/asking.h"
#include "gateway/flow/flow_for_test.h"

namespace atl::gateway {
namespace {

using namespace testing;

TEST(AsSent, HasNothingThatStaysOnTheWay) {
  http::RequestHead head;
  head.headers = {{"connection", "X-Dry-Run, te"},
                  {"x-dry-run", "true"},
                  {"te", "trailers"},
                  {"proxy-mine", "1"},
                  {"keep-alive", "5"},
                  {"x-kept", "1"}};
  auto sent = as_sent(head.headers);
  for (auto name : {"x-dry-run", "proxy-mine", "keep-alive"}) EXPECT_FALSE(sent.find(name)) << name;
  for (auto name : {"te", "x-kept"}) EXPECT_TRUE(sent.find(name)) << name;
}

// The status of the answer to a GET with these header lines.
Task<> get(World& w, Parts& parts, std::uint16_t port, std::string lines, std::string& status) {
  auto [client, server] = net::stream_pair(w.loop.get_executor());
  Inbound in{parts.registry.find("isandbox"), "", authority("api.example:" + std::to_string(port))};
  HttpFlow flow(parts, std::move(in), {});
  async::Scope scope(w.loop.get_executor());
  scope.spawn("serve", serve(flow, std::move(server)));
  std::string head = fmt::format("GET / HTTP/1.1\r\nHost: api.example:{}\r\n{}\r\n", port, lines);
  EXPECT_TRUE((co_await client->write_all(head)).ok());
  char buffer[4096];
  auto got = co_await client->read_some(buffer);
  status = std::string(buffer, got ? *got : 0).substr(9, 3);
  client->close();
  co_await scope.join();
}

TEST(HttpFlow, RulesDoNotSeeFieldsThatAreNotSent) {
  PartsWorld all;
  all.parts.registry.put(sandbox_with(R"([{"id": "dry", "action": "allow", "hosts": ["api.example"],
      "protocol": "http", "ports": [1], "when": "header['x-dry-run'] == 'true'"}])"));
  all.world.run([&](World& w) -> Task<> {
    w.resolver->names.clear();  // what is let through gets no further
    std::string status;
    co_await get(w, all.parts, 1, "X-Dry-Run: true\r\n", status);
    EXPECT_NE(status, "403");
    co_await get(w, all.parts, 1, "X-Dry-Run: true\r\nConnection: x-dry-run\r\n", status);
    EXPECT_EQ(status, "403");
  });
}

}  // namespace
}  // namespace atl::gateway
