// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/websocket_search.h"

#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

using http::websocket_frame;
using http::WsOpcode;

std::shared_ptr<const SecretPatterns> patterns() {
  std::vector<SecretPatterns::Pattern> list;
  list.push_back({Secret("top-secret"), "[key]"});
  return std::make_shared<const SecretPatterns>(list);
}

// What a client would read of the frames: messages, and control frames as "opcode:payload".
std::vector<std::string> messages(std::string_view bytes) {
  http::WebSocketParser parser(http::WsSender::kServer);
  std::vector<std::string> out;
  std::string message, control;
  for (;;) {
    auto event = parser.next(bytes);
    EXPECT_TRUE(event.ok()) << event.error().message();
    if (!event.ok() || event->kind == http::WebSocketParser::Event::Kind::kNeedMore) return out;
    bool is_control = http::is_control(event->opcode);
    if (event->kind == http::WebSocketParser::Event::Kind::kData)
      (is_control ? control : message) += event->data;
    if (event->kind != http::WebSocketParser::Event::Kind::kEnd || (!is_control && !event->final)) continue;
    std::string& whole = is_control ? control : message;
    out.push_back(is_control ? fmt::format("{}:{}", static_cast<int>(event->opcode), whole) : whole);
    whole.clear();
  }
}

std::string searched(const std::string& bytes, std::size_t step, std::size_t& incidents) {
  WebSocketSearch search(patterns());
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += step)
    EXPECT_TRUE(search.feed(std::string_view(bytes).substr(at, step), out).ok());
  incidents = search.incidents();
  return out;
}

TEST(WebSocketSearch, TakesSecretsOutHoweverTheyAreCut) {
  std::string bytes = websocket_frame(WsOpcode::kText, "a top-secret word") +
                      websocket_frame(WsOpcode::kText, "over top-", false) +
                      websocket_frame(WsOpcode::kPing, "beat") +
                      websocket_frame(WsOpcode::kContinuation, "secret parts", true) +
                      websocket_frame(WsOpcode::kBinary, std::string("\0top-secret", 11)) +
                      websocket_frame(WsOpcode::kText, "");
  for (std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{7}, bytes.size()}) {
    std::size_t incidents = 0;
    auto got = messages(searched(bytes, step, incidents));
    EXPECT_EQ(got, (std::vector<std::string>{"a [key] word", "9:beat", "over [key] parts",
                                             std::string("\0[key]", 6), ""}))
        << step;
    EXPECT_EQ(incidents, 3u);
  }
}

// The client needs the first message whole, so its part of the secret is lost; the last part is not, and
// somebody hears of it.
TEST(WebSocketSearch, OfASecretOverSeveralMessagesTheLastPartIsTakenOut) {
  std::string bytes = websocket_frame(WsOpcode::kBinary, "out: top-") + websocket_frame(WsOpcode::kPing, "") +
                      websocket_frame(WsOpcode::kBinary, "sec") + websocket_frame(WsOpcode::kText, "") +
                      websocket_frame(WsOpcode::kText, "ret!");
  for (std::size_t step : {std::size_t{1}, std::size_t{5}, bytes.size()}) {
    std::size_t incidents = 0;
    EXPECT_EQ(messages(searched(bytes, step, incidents)),
              (std::vector<std::string>{"out: top-", "9:", "sec", "", "[key]!"}))
        << step;
    EXPECT_EQ(incidents, 1u);
  }
}

TEST(WebSocketSearch, EachMessageHasItsOwnPlaceholder) {
  std::size_t incidents = 0;
  std::string one = websocket_frame(WsOpcode::kText, "top-secret");
  EXPECT_EQ(messages(searched(one + one, 3, incidents)), (std::vector<std::string>{"[key]", "[key]"}));
  EXPECT_EQ(incidents, 2u);
}

TEST(WebSocketSearch, AMessageThatHasComeWholeStaysOneFrame) {
  std::size_t incidents = 0;
  std::string frame = websocket_frame(WsOpcode::kText, "nothing to hide, top-");
  EXPECT_EQ(searched(frame, frame.size(), incidents), frame);
  EXPECT_EQ(incidents, 0u);
}

TEST(WebSocketSearch, WhatIsSettledDoesNotWaitForTheMessagesEnd) {
  WebSocketSearch search(patterns());
  std::string out;
  ASSERT_TRUE(search.feed(websocket_frame(WsOpcode::kText, "an event;", false), out).ok());
  EXPECT_EQ(out, websocket_frame(WsOpcode::kText, "an event;", false));
}

TEST(WebSocketSearch, AControlFrameWithASecretLosesItsText) {
  std::size_t incidents = 0;
  std::string close("\x03\xe8", 2);
  std::string bytes = websocket_frame(WsOpcode::kPong, "top-secret") +
                      websocket_frame(WsOpcode::kClose, close + "top-secret");
  EXPECT_EQ(messages(searched(bytes, bytes.size(), incidents)),
            (std::vector<std::string>{"10:", "8:" + close}));
  EXPECT_EQ(incidents, 2u);
}

TEST(WebSocketSearch, WhatIsNoWebSocketOfAServerIsRefused) {
  std::string masked = websocket_frame(WsOpcode::kText, "x", true, std::array<unsigned char, 4>{1, 2, 3, 4});
  for (const std::string& bytes : {std::string("HTTP/1.1 200 OK\r\n"), masked, std::string("\xc1\x00", 2)}) {
    WebSocketSearch search(patterns());
    std::string out;
    EXPECT_FALSE(search.feed(bytes, out).ok());
    EXPECT_EQ(out, "");
  }
}

}  // namespace
}  // namespace atl::gateway
