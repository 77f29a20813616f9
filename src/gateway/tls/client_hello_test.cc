// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/client_hello.h"

#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

std::string u8(std::size_t value) { return std::string(1, static_cast<char>(value)); }
std::string u16(std::size_t value) { return u8(value >> 8) + u8(value & 0xff); }
std::string block8(const std::string& body) { return u8(body.size()) + body; }
std::string block16(const std::string& body) { return u16(body.size()) + body; }
std::string extension(unsigned type, const std::string& body) { return u16(type) + block16(body); }
std::string server_name(const std::string& name) { return extension(0, block16(u8(0) + block16(name))); }

std::string message(const std::string& extensions) {
  std::string body = u16(0x0303) + std::string(32, 'r') + block8(std::string(32, 's')) +
                     block16(u16(0x1301) + u16(0xc02b)) + block8(u8(0)) + block16(extensions);
  return u8(1) + u8(body.size() >> 16) + u16(body.size() & 0xffff) + body;
}

std::string record(const std::string& body, unsigned type = 22, unsigned version = 0x0301) {
  return u8(type) + u16(version) + block16(body);
}

std::string in_records(const std::string& body, std::size_t bytes_each) {
  std::string out;
  for (std::size_t at = 0; at < body.size(); at += bytes_each) out += record(body.substr(at, bytes_each));
  return out;
}

std::string hello_for(const std::string& name) { return record(message(server_name(name))); }

void expect_broken(const std::string& bytes, std::string_view reason) {
  auto result = read_client_hello(bytes);
  EXPECT_EQ(result.state, HelloState::kBroken) << reason;
  EXPECT_EQ(result.reason, reason);
}

TEST(ClientHello, TellsWhatTheClientOffers) {
  std::string alpn = extension(16, block16(block8("h2") + block8("http/1.1")));
  std::string versions = extension(43, block8(u16(0x1a1a) + u16(0x0304) + u16(0x0303)));
  auto result = read_client_hello(record(message(server_name("API.example.com") + alpn + versions)));
  ASSERT_EQ(result.state, HelloState::kParsed) << result.reason;
  EXPECT_EQ(result.hello.sni, "api.example.com");
  EXPECT_EQ(result.hello.alpn, (std::vector<std::string>{"h2", "http/1.1"}));
  EXPECT_EQ(result.hello.versions, (std::vector<std::uint16_t>{0x0304, 0x0303}));
  EXPECT_FALSE(result.hello.ech);
}

// docker/sbx-releases#605: a hello without a name skipped the rules. Here it is told from "not all there
// yet".
TEST(ClientHello, DockerSbx605NoServerName) {
  auto result = read_client_hello(record(message(extension(10, block16(u16(29))))));
  ASSERT_EQ(result.state, HelloState::kParsed);
  EXPECT_FALSE(result.hello.sni);
  auto bare = message("");
  std::string body = bare.substr(4, bare.size() - 6);  // no extensions at all, as TLS 1.2 allows
  auto old = read_client_hello(record(u8(1) + u8(0) + u16(body.size()) + body));
  ASSERT_EQ(old.state, HelloState::kParsed) << old.reason;
  EXPECT_EQ(old.hello.versions, std::vector<std::uint16_t>{0x0303});
}

// microsoft/azure-container-apps#1826: the name behind byte 1024, after a post-quantum key share, was taken
// for none.
TEST(ClientHello, AzureContainerApps1826NameBehindALargeKeyShare) {
  std::string share = extension(51, block16(u16(0x11ec) + block16(std::string(1216, 'k'))));
  auto bytes = record(message(share + server_name("late.example")));
  EXPECT_EQ(read_client_hello(bytes.substr(0, 1024)).state, HelloState::kNeedMore);
  EXPECT_EQ(read_client_hello(bytes).hello.sni, "late.example");
}

TEST(ClientHello, NeedsMoreUntilTheLastByte) {
  auto bytes = hello_for("example.com");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_EQ(read_client_hello(bytes.substr(0, size)).state, HelloState::kNeedMore) << size;
  EXPECT_EQ(read_client_hello(bytes).state, HelloState::kParsed);
  EXPECT_EQ(read_client_hello(bytes + record("early", 23)).state, HelloState::kParsed);
}

TEST(ClientHello, RecordsMayBeCutAnywhere) {
  auto whole = message(server_name("example.com"));
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    auto result = read_client_hello(record(whole.substr(0, cut)) + record(whole.substr(cut)));
    ASSERT_EQ(result.state, HelloState::kParsed) << cut << ": " << result.reason;
    ASSERT_EQ(result.hello.sni, "example.com");
  }
  auto dust = in_records(whole, 1);
  EXPECT_EQ(read_client_hello(dust).hello.sni, "example.com");
  for (std::size_t size = 0; size < dust.size(); ++size)
    ASSERT_EQ(read_client_hello(dust.substr(0, size)).state, HelloState::kNeedMore) << size;
}

TEST(ClientHello, OtherProtocolsAreNotTls) {
  for (const char* text :
       {"GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\x80\x2e\x01", "\x16\x02", "\x15\x03\x01", "PRI * HTTP/2.0"})
    EXPECT_EQ(read_client_hello(text).state, HelloState::kNotTls) << text;
  EXPECT_EQ(read_client_hello("\x16").state, HelloState::kNeedMore);
}

TEST(ClientHello, ServerNameTwice) {
  expect_broken(record(message(server_name("a.example") + server_name("a.example"))),
                "an extension comes twice");
  std::string two = extension(0, block16(u8(0) + block16("a.example") + u8(0) + block16("b.example")));
  expect_broken(record(message(two)), "there are two server names");
}

TEST(ClientHello, ServerNameInAnotherSpelling) {
  for (const std::string& name :
       {std::string(""), std::string("example.com."), std::string("a..example"), std::string("a_b.example"),
        std::string("exa\0mple.com", 12), std::string("b\xc3\xbc\x63her.example"), std::string("1.2.3.4"),
        std::string("0x7f.1"), std::string("[::1]"), std::string("::1"), std::string("*.example.com"),
        std::string("example.com:443"), std::string("a%2eb"), std::string(300, 'a'),
        std::string("a.example\r\nx")})
    expect_broken(hello_for(name), "the server name is not a DNS name in its plain spelling");
  expect_broken(record(message(extension(0, block16(u8(1) + block16("a.example"))))),
                "the server name is not a host name");
  expect_broken(record(message(extension(0, block16(u8(0) + u16(20) + "a.example")))),
                "the server name has a wrong length");
  expect_broken(record(message(extension(0, block16(u8(0) + block16("a.example")) + "x"))),
                "the server name extension has a wrong length");
  expect_broken(record(message(extension(0, ""))), "the server name extension has a wrong length");
}

TEST(ClientHello, EncryptedHelloIsSeen) {
  auto result =
      read_client_hello(record(message(server_name("public.example") + extension(0xfe0d, "noise"))));
  EXPECT_TRUE(result.hello.ech);
  EXPECT_EQ(result.hello.sni, "public.example");
}

TEST(ClientHello, LengthsThatLie) {
  auto good = message(server_name("a.example"));
  auto with_length = [&](std::size_t length) { return u8(1) + u8(0) + u16(length) + good.substr(4); };
  expect_broken(record(with_length(good.size() - 5)), "something follows it in its record");
  expect_broken(record(good + good), "something follows it in its record");
  EXPECT_EQ(read_client_hello(record(with_length(good.size()))).state, HelloState::kNeedMore);
  expect_broken(record(u8(1) + u8(1) + u16(0) + good.substr(4)), "it is larger than 16 KiB");
  expect_broken(record(message(u16(0) + u16(5) + "a")), "an extension has a wrong length");
  expect_broken(record(message(extension(16, ""))), "the list of protocols has a wrong length");
  expect_broken(record(message(extension(16, block16(u8(0))))), "a protocol's name has a wrong length");
  expect_broken(record(message(extension(43, block8("abc")))), "the list of versions has a wrong length");
  expect_broken(record(message(extension(41, "psk") + server_name("a.example"))),
                "the pre-shared key is not the last extension");
  expect_broken(record(u8(1) + u8(0) + u16(2) + u16(0x0303)), "it ends too early");
  expect_broken(u8(22) + u16(0x0301) + u16(0), "a record has a wrong length");
  expect_broken(u8(22) + u16(0x0301) + u16(20000), "a record has a wrong length");
}

TEST(ClientHello, OtherRecordsAndMessages) {
  auto good = message(server_name("a.example"));
  expect_broken(record(u8(2) + good.substr(1)), "the first message is not a ClientHello");
  expect_broken(record(good.substr(0, 9)) + record("x", 21), "another record interrupts it");
  expect_broken(record(good.substr(0, 9)) + record(good.substr(9), 22, 0x0201),
                "a record has an unknown version");
}

TEST(ClientHello, SixteenKibibytesAreTheBound) {
  std::string padding = extension(21, std::string(15000, '\0'));
  EXPECT_EQ(read_client_hello(record(message(padding + server_name("a.example")))).hello.sni, "a.example");
  // Small enough as a message, and too large with the heads of its records.
  auto dust = in_records(message(padding + server_name("a.example")), 10);
  expect_broken(dust, "it is larger than 16 KiB");
  expect_broken(record(message(extension(21, std::string(17000, '\0')))).substr(0, 600),
                "a record has a wrong length");
}

}  // namespace
}  // namespace atl::gateway
