// SPDX-License-Identifier: Apache-2.0
#include "http/websocket.h"

#include <gtest/gtest.h>

namespace atl::http {
namespace {

using Kind = WebSocketParser::Event::Kind;
constexpr std::array<unsigned char, 4> kMask = {1, 2, 3, 4};

// "[1 hello.][0 ...]" in one text: opcode, payload, '.' for a final frame.
Result<std::string> parse(std::string_view bytes, WsSender from, std::size_t step = 1,
                          WebSocketLimits limits = {}) {
  WebSocketParser parser(from, limits);
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    auto in = bytes.substr(at, step);
    for (;;) {
      TRY(auto event, parser.next(in));
      if (event.kind == Kind::kNeedMore) break;
      if (event.kind == Kind::kFrame)
        out += fmt::format("[{}/{} ", static_cast<int>(event.opcode), static_cast<int>(event.message));
      if (event.kind == Kind::kData) out += event.data;
      if (event.kind == Kind::kEnd) out += event.final ? ".]" : "]";
    }
    EXPECT_TRUE(in.empty());
  }
  return out;
}

TEST(WebSocket, ReadsWhatItWritesHoweverItIsCut) {
  for (std::size_t size : {0u, 1u, 125u, 126u, 65535u, 65536u, 200'000u}) {
    std::string text(size, 'x');
    for (std::size_t step : {1u, 3u, 1'000'000u}) {
      auto server = parse(websocket_frame(WsOpcode::kBinary, text), WsSender::kServer, step);
      ASSERT_TRUE(server.ok()) << server.error().message();
      EXPECT_EQ(*server, "[2/2 " + text + ".]");
      auto client = parse(websocket_frame(WsOpcode::kBinary, text, true, kMask), WsSender::kClient, step);
      ASSERT_TRUE(client.ok());
      EXPECT_EQ(*client, *server);
    }
  }
}

TEST(WebSocket, ControlFramesMayStandBetweenTheParts) {
  auto bytes = websocket_frame(WsOpcode::kText, "he", false) + websocket_frame(WsOpcode::kPing, "p") +
               websocket_frame(WsOpcode::kContinuation, "llo") +
               websocket_frame(WsOpcode::kClose, "\x03\xe8");
  EXPECT_EQ(*parse(bytes, WsSender::kServer), "[1/1 he][9/9 p.][0/1 llo.][8/8 \x03\xe8.]");
}

TEST(WebSocket, RefusesWhatTheRulesForbid) {
  auto part = websocket_frame(WsOpcode::kText, "x", false);
  std::vector<std::pair<const char*, std::string>> all = {
      {"reserved bit", "\xc1\x01x"},
      {"unknown opcode", "\x83\x01x"},
      {"unknown control", "\x8b\x01x"},
      {"masked server", websocket_frame(WsOpcode::kText, "x", true, kMask)},
      {"long form of a short length", std::string("\x81\x7e\0\x05hello", 9)},
      {"longest form of a short length", std::string("\x81\x7f\0\0\0\0\0\0\x01\0", 10)},
      {"sign bit", std::string("\x81\x7f\x80\0\0\0\0\1\0\0", 10)},
      {"long ping", websocket_frame(WsOpcode::kPing, std::string(126, 'x'))},
      {"ping in parts", websocket_frame(WsOpcode::kPing, "x", false)},
      {"continuation of nothing", websocket_frame(WsOpcode::kContinuation, "x")},
      {"message in a message", part + part},
      {"half a close code", websocket_frame(WsOpcode::kClose, "x")},
      {"close code 1005", websocket_frame(WsOpcode::kClose, "\x03\xed")},
      {"close code 999", websocket_frame(WsOpcode::kClose, "\x03\xe7")},
      {"frame after a close", websocket_frame(WsOpcode::kClose, "") + websocket_frame(WsOpcode::kText, "x")},
  };
  for (const auto& [name, bytes] : all) {
    auto got = parse(bytes, WsSender::kServer);
    ASSERT_FALSE(got.ok()) << name;
    EXPECT_EQ(got.error().code(), Code::kInvalid) << name;
  }
  EXPECT_FALSE(parse(websocket_frame(WsOpcode::kText, "x"), WsSender::kClient).ok());
}

TEST(WebSocket, FramesAndMessagesAreBounded) {
  WebSocketLimits limits{.frame_bytes = 10, .message_bytes = 15};
  auto ten = std::string(10, 'x');
  EXPECT_TRUE(parse(websocket_frame(WsOpcode::kText, ten), WsSender::kServer, 1, limits).ok());
  EXPECT_EQ(parse(websocket_frame(WsOpcode::kText, ten + "x"), WsSender::kServer, 1, limits).error().code(),
            Code::kTooLarge);
  auto two = websocket_frame(WsOpcode::kText, ten, false) + websocket_frame(WsOpcode::kContinuation, ten);
  EXPECT_EQ(parse(two, WsSender::kServer, 1, limits).error().code(), Code::kTooLarge);
}

}  // namespace
}  // namespace atl::http
