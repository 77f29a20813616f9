// SPDX-License-Identifier: Apache-2.0
//
// The wire of ZeroMQ: what is read of a peer, whole and cut anywhere, and what is refused.
#include "guest/interpreter/zmtp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "guest/interpreter/jupyter.h"

namespace atl::guest::interpreter::zmtp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string handshake() { return greeting() + ready(Type::kDealer); }

std::string bytes_of(std::vector<std::string> parts) { return message_bytes(parts); }

std::vector<Message> read_all(Reader& reader, std::string_view bytes, std::size_t step) {
  std::vector<Message> out;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    reader.feed(bytes.substr(at, step));
    for (;;) {
      auto message = reader.next();
      EXPECT_TRUE(message.ok()) << message.error().message();
      if (!message.ok() || !*message) break;
      out.push_back(std::move(**message));
    }
  }
  return out;
}

TEST(Zmtp, GreetsAsVersion3WithoutSecurity) {
  std::string hello = greeting();
  ASSERT_THAT(hello, SizeIs(64));
  EXPECT_EQ(hello[0], '\xff');
  EXPECT_EQ(hello[9], '\x7f');
  EXPECT_EQ(hello[10], 3);
  EXPECT_EQ(hello.substr(12, 4), "NULL");
}

TEST(Zmtp, ReadsMessagesWhereverTheirBytesAreCut) {
  std::string large(70'000, 'x');
  std::string bytes = handshake() + bytes_of({"a", "", large}) + bytes_of({"b"});
  for (std::size_t step : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    Reader reader(1 << 20);
    auto messages = read_all(reader, bytes, step);
    EXPECT_TRUE(reader.ready());
    ASSERT_THAT(messages, SizeIs(2));
    EXPECT_THAT(messages[0].parts, ElementsAre("a", "", large));
    EXPECT_FALSE(messages[0].cut);
    EXPECT_THAT(messages[1].parts, ElementsAre("b"));
  }
}

TEST(Zmtp, LeavesOutWhatDoesNotFitAndSaysSo) {
  Reader reader(100);
  std::string bytes = handshake() + bytes_of({"head", std::string(200, 'x'), "tail"}) + bytes_of({"next"});
  auto messages = read_all(reader, bytes, 16);
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_TRUE(messages[0].cut);
  EXPECT_THAT(messages[0].parts, ElementsAre("head", "", "tail"));
  EXPECT_FALSE(messages[1].cut);
}

TEST(Zmtp, RefusesOtherProtocols) {
  std::vector<std::string> wrong = {std::string(64, 'x'), handshake(), greeting() + bytes_of({"early"}),
                                    greeting() + std::string("\x04\x06\x05"
                                                             "ERROR",
                                                             8)};
  wrong[1][10] = 2;  // ZMTP 2
  for (const std::string& bytes : wrong) {
    Reader reader(1000);
    reader.feed(bytes);
    auto message = reader.next();
    ASSERT_FALSE(message.ok());
    EXPECT_EQ(message.error().code(), Code::kCorrupt);
  }
}

TEST(Jupyter, ReadsWhatAKernelSays) {
  Message message;
  message.parts = {"topic",
                   "<IDS|MSG>",
                   "",
                   R"({"msg_type":"stream","msg_id":"m"})",
                   R"({"msg_id":"ours"})",
                   "{}",
                   R"({"name":"stdout","text":"x"})"};
  auto heard = jupyter::parse_heard(message);
  ASSERT_TRUE(heard.ok());
  EXPECT_EQ(heard->type, "stream");
  EXPECT_EQ(heard->parent, "ours");
  EXPECT_EQ(heard->content["text"], boost::json::value("x"));
}

TEST(Jupyter, RefusesWhatIsNoMessage) {
  Message message;
  for (std::vector<std::string> parts : {std::vector<std::string>{},
                                         {"<IDS|MSG>", "", "{}"},
                                         {"<IDS|MSG>", "", "[]", "{}", "{}", "{}"},
                                         {"<IDS|MSG>", "", "{}", "nonsense", "{}", "{}"}}) {
    message.parts = parts;
    EXPECT_FALSE(jupyter::parse_heard(message).ok());
  }
}

TEST(Jupyter, KnowsWhoseMessageItIsThatItCannotRead) {
  std::string deep = std::string(5000, '[') + std::string(5000, ']');
  for (const std::string& content : {std::string("nonsense"), R"({"a":)" + deep + "}"}) {
    Message message;
    message.parts = {"<IDS|MSG>", "",     R"({"msg_type":"display_data"})", R"({"msg_id":"ours"})",
                     "{}",        content};
    auto heard = jupyter::parse_heard(message);
    ASSERT_TRUE(heard.ok());
    EXPECT_EQ(heard->parent, "ours");
    EXPECT_TRUE(heard->cut);
  }
}

TEST(Jupyter, RequestsAreMessages) {
  jupyter::Request request =
      jupyter::make_request("s\"1", "execute_request", jupyter::execute_content("a\n\"", true), "{}");
  Message message;
  message.parts = request.parts;
  auto heard = jupyter::parse_heard(message);
  ASSERT_TRUE(heard.ok()) << heard.error().message();
  EXPECT_EQ(heard->type, "execute_request");
  EXPECT_EQ(heard->content["code"], boost::json::value("a\n\""));
  EXPECT_EQ(heard->content["store_history"], boost::json::value(false));
  EXPECT_THAT(request.parts[2], HasSubstr(request.id));
}

}  // namespace
}  // namespace atl::guest::interpreter::zmtp
