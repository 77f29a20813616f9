// SPDX-License-Identifier: Apache-2.0
//
// A create whose client has gone: nobody knows the sandbox's id, so it must not live on.
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

class UndeliveredTest : public test::ApiFixture {
 protected:
  // A client that has sent its create, which is held back half way.
  net::StreamPtr half_way(const std::string& path, const std::string& body) {
    api_.world.guests.hold_init = true;
    auto client = api_.world.run(api_.connect_tcp());
    EXPECT_TRUE(client.ok());
    std::string request =
        fmt::format("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {}\r\nContent-Length: {}\r\n\r\n{}",
                    path, api_.admin_key, body.size(), body);
    EXPECT_TRUE(api_.world.run((*client)->write_all(request)).ok());
    api_.world.until([&] { return api_.world.guests.waiting == 1; });
    return std::move(*client);
  }
  std::size_t alive() { return api_.world.runner.entries.size(); }

  static constexpr char kBody[] = R"({"templateID":"base"})";
};

TEST_F(UndeliveredTest, ACreateWhoseClientLeftEndsAtOnce) {
  auto client = half_way("/v2/sandboxes", kBody);
  client->close();
  api_.world.guests.release();
  api_.world.until([&] { return alive() == 0; });
  api_.world.run(api_.world.service->settle());
  auto ended = call("GET", "/v1/sandboxes?ended=true").body.at("sandboxes").as_array();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].at("outcome").as_string(), "killed");
  EXPECT_EQ(ended[0].at("reason").as_string(), "the client was gone before it was created");
}

TEST_F(UndeliveredTest, AClientThatOnlyFinishedSendingHasItsSandbox) {
  auto client = half_way("/v2/sandboxes", kBody);
  EXPECT_TRUE(api_.world.run(client->shutdown_write()).ok());
  api_.world.guests.release();
  std::string answer(4096, 0);
  auto count = api_.world.run(client->read_some(answer));
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 201");
  client.reset();
  EXPECT_EQ(call("GET", "/v2/sandboxes").body.as_array().size(), 1u);
  EXPECT_EQ(alive(), 1u);
}

TEST_F(UndeliveredTest, ChildrenOfAForkWhoseClientLeftEndToo) {
  std::string id = api_.create();
  api_.world.guests.hold_init = true;
  auto client = half_way("/sandboxes/" + id + "/fork", R"({"count":1})");
  client->close();
  api_.world.guests.release();
  api_.world.until([&] { return alive() == 1 && api_.world.service->status().ending == 0; });
  EXPECT_EQ(call("GET", "/sandboxes/" + id).status, 200) << "its parent stays";
}

}  // namespace
}  // namespace atl::api
