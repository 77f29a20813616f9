// SPDX-License-Identifier: Apache-2.0
#include "gateway/dns/wire.h"

#include <gtest/gtest.h>

namespace atl::gateway::dns {
namespace {

std::string u16(unsigned value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
std::string label(const std::string& text) { return static_cast<char>(text.size()) + text; }
std::string wire_name(std::initializer_list<std::string> labels) {
  std::string out;
  for (const auto& text : labels) out += label(text);
  return out + std::string(1, '\0');
}
std::string head(unsigned flags, unsigned questions = 1, unsigned answers = 0, unsigned authority = 0,
                 unsigned additional = 0) {
  return u16(0x1234) + u16(flags) + u16(questions) + u16(answers) + u16(authority) + u16(additional);
}
std::string question(const std::string& name, unsigned type = kTypeA, unsigned kind = 1) {
  return name + u16(type) + u16(kind);
}
std::string opt(unsigned bytes = 4096, unsigned version = 0, const std::string& options = "") {
  return std::string(1, '\0') + u16(kTypeOpt) + u16(bytes) + std::string(1, '\0') +
         std::string(1, static_cast<char>(version)) + u16(0) + u16(static_cast<unsigned>(options.size())) +
         options;
}
const std::string kName = wire_name({"Api", "example"});

TEST(DnsQuery, IsReadWhole) {
  auto in = read_query(head(0x0100) + question(kName));
  ASSERT_TRUE(in);
  EXPECT_FALSE(in->error);
  EXPECT_EQ(in->query.id, 0x1234);
  EXPECT_EQ(in->query.name, "api.example");
  EXPECT_EQ(in->query.type, kTypeA);
  EXPECT_TRUE(in->query.recursion_desired);
  EXPECT_FALSE(in->query.edns);
  EXPECT_EQ(in->query.question, question(kName));  // the case stays
  auto with_opt = read_query(head(0x0110, 1, 0, 0, 1) + question(kName, kTypeAaaa) +
                             opt(4096, 0, u16(10) + u16(2) + "ab"));
  EXPECT_FALSE(with_opt->error);
  EXPECT_TRUE(with_opt->query.edns);
  EXPECT_TRUE(with_opt->query.checking_disabled);
  EXPECT_EQ(with_opt->query.udp_bytes, 4096);
  EXPECT_EQ(read_query(head(0, 1, 0, 0, 1) + question(kName) + opt(10))->query.udp_bytes, 512);
}

TEST(DnsQuery, NamesThatAreNoHostsHaveNone) {
  for (const std::string& name :
       {wire_name({}), wire_name({"_dmarc", "a", "example"}), wire_name({"a.b", "example"}),
        wire_name({"1", "2", "3", "4"}), wire_name({"a", "0x7f"}),
        wire_name({std::string("a\0b", 3), "example"}), wire_name({"\xff", "example"}),
        wire_name({"-a", "example"}), wire_name({"*", "example"}), wire_name({"a b", "example"})}) {
    auto in = read_query(head(0) + question(name));
    ASSERT_TRUE(in);
    EXPECT_FALSE(in->error);
    EXPECT_FALSE(in->query.name) << *in->query.name;
  }
}

TEST(DnsQuery, WhatMustNotBeAnsweredIsNot) {
  EXPECT_FALSE(read_query(""));
  EXPECT_FALSE(read_query(head(0).substr(0, 11)));
  EXPECT_FALSE(read_query(head(0x8000) + question(kName)));  // an answer: answering it makes a loop
  EXPECT_FALSE(read_query(head(0) + question(kName) + std::string(kMaxQueryBytes, 'x')));
}

TEST(DnsQuery, MalformedOnesGetAnError) {
  auto error = [](const std::string& message) { return read_query(message).value().error; };
  std::string good = question(kName);
  EXPECT_EQ(error(head(0, 0)), Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 2) + good + good), Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 1, 1) + good), Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 1, 0, 1) + good), Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 1, 0, 0, 2) + good + opt() + opt()), Rcode::kFormErr);
  EXPECT_EQ(error(head(0x0200) + good), Rcode::kFormErr);
  EXPECT_EQ(error(head(0) + good + "x"), Rcode::kFormErr);
  EXPECT_EQ(error(head(0) + good.substr(0, good.size() - 1)), Rcode::kFormErr);
  EXPECT_EQ(error(head(0) + good.substr(0, 5)), Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 1, 0, 0, 1) + good), Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 1, 0, 0, 1) + good + opt() + "x"), Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 1, 0, 0, 1) + good + kName + u16(1) + u16(1) + u16(0) + u16(0) + u16(0)),
            Rcode::kFormErr);
  EXPECT_EQ(error(head(0, 1, 0, 0, 1) + good + opt(512, 1)), Rcode::kBadVersion);
  EXPECT_EQ(error(head(0) + question(kName, kTypeA, 3)), Rcode::kRefused);  // CHAOS
  EXPECT_EQ(error(head(0x2800) + good), Rcode::kNotImp);                    // UPDATE
  std::string label63(63, 'a');
  EXPECT_EQ(error(head(0) + question(wire_name({label63, label63, label63, std::string(61, 'a')}))),
            std::nullopt);
  EXPECT_EQ(error(head(0) + question(wire_name({label63, label63, label63, std::string(62, 'a')}))),
            Rcode::kFormErr);
  EXPECT_EQ(error(head(0) + question("\x40" + std::string(64, 'a') + std::string(1, '\0'))), Rcode::kFormErr);
}

TEST(DnsQuery, CompressionIsRefusedAndNeverFollowed) {
  auto error = [](const std::string& name) { return read_query(head(0) + question(name)).value().error; };
  EXPECT_EQ(error("\xc0\x0c"), Rcode::kFormErr);          // to itself
  EXPECT_EQ(error("\x01\x61\xc0\x0c"), Rcode::kFormErr);  // a loop
  EXPECT_EQ(error("\xc0\x00"), Rcode::kFormErr);          // into the head
  EXPECT_EQ(error("\x80\x01"), Rcode::kFormErr);
}

TEST(DnsAnswer, AnAddressForItsName) {
  auto in = read_query(head(0x0100) + question(kName)).value();
  auto bytes = write_answer(in.query, {.address = IpAddress::v4({198, 18, 3, 4}), .ttl_seconds = 60});
  EXPECT_EQ(bytes, head(0x8180, 1, 1) + question(kName) + u16(0xc00c) + u16(1) + u16(1) + u16(0) + u16(60) +
                       u16(4) + "\xc6\x12\x03\x04");
}

TEST(DnsAnswer, OtherTypesOfANameAreEmpty) {
  for (unsigned type : {unsigned{kTypeAaaa}, unsigned{kTypeHttps}, 15u, 255u}) {
    auto in = read_query(head(0) + question(kName, type)).value();
    EXPECT_EQ(write_answer(in.query, {.address = IpAddress::v4({198, 18, 3, 4})}),
              head(0x8080) + question(kName, type));
  }
}

TEST(DnsAnswer, RefusalsAndErrors) {
  auto in = read_query(head(0x0110) + question(kName)).value();
  EXPECT_EQ(write_answer(in.query, {.rcode = Rcode::kNxDomain, .address = IpAddress::v4(1)}),
            head(0x8193) + question(kName));
  EXPECT_EQ(write_answer(in.query, {.rcode = Rcode::kRefused}), head(0x8195) + question(kName));
  EXPECT_EQ(write_answer(in.query, {.rcode = Rcode::kServFail}), head(0x8192) + question(kName));
  EXPECT_EQ(write_answer(in.query, {.address = IpAddress::v4(1), .truncated = true}),
            head(0x8390) + question(kName));
  auto broken = read_query(head(0, 0)).value();
  EXPECT_EQ(write_answer(broken.query, {.rcode = *broken.error}), head(0x8081, 0));
}

TEST(DnsAnswer, EdnsIsAnsweredWithEdns) {
  auto in = read_query(head(0, 1, 0, 0, 1) + question(kName) + opt()).value();
  EXPECT_EQ(write_answer(in.query, {.rcode = Rcode::kNxDomain}),
            head(0x8083, 1, 0, 0, 1) + question(kName) + opt(1232));
  auto version = read_query(head(0, 1, 0, 0, 1) + question(kName) + opt(512, 9)).value();
  std::string expected = opt(1232);
  expected[5] = 1;  // the upper bits of code 16
  EXPECT_EQ(write_answer(version.query, {.rcode = *version.error}),
            head(0x8080, 1, 0, 0, 1) + question(kName) + expected);
}

TEST(DnsAnswer, TheLongestFits) {
  std::string label63(63, 'a');
  auto name = wire_name({label63, label63, label63, std::string(61, 'a')});
  auto in = read_query(head(0, 1, 0, 0, 1) + question(name) + opt()).value();
  EXPECT_LE(write_answer(in.query, {.address = IpAddress::v4(1)}).size(), kMaxAnswerBytes);
}

TEST(DnsFrame, MessagesBehindTheirLength) {
  EXPECT_EQ(frame("abc"), std::string("\0\3abc", 5));
  EXPECT_EQ(first_framed(frame("abc") + "rest"), "abc");
  for (std::size_t size = 0; size < 5; ++size)
    EXPECT_FALSE(first_framed(frame("abc").substr(0, size))) << size;
  EXPECT_EQ(first_framed(std::string(2, '\0')), "");
}

}  // namespace
}  // namespace atl::gateway::dns
