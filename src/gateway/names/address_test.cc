// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gateway/names/address_class.h"
#include "gateway/names/ip_address.h"

namespace atl::gateway {
namespace {

IpAddress ip(std::string_view text) {
  auto address = parse_ip(text);
  EXPECT_TRUE(address.ok()) << text;
  return std::move(address).value_or(IpAddress());
}

Cidr block(std::string_view text) { return parse_cidr(text).value(); }

TEST(IpAddress, TextComesBackInItsShortestForm) {
  for (auto [given, text] :
       std::initializer_list<std::pair<const char*, const char*>>{{"0.0.0.0", "0.0.0.0"},
                                                                  {"255.255.255.255", "255.255.255.255"},
                                                                  {"::", "::"},
                                                                  {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
                                                                  {"fe80::0001", "fe80::1"},
                                                                  {"::ffff:10.0.0.1", "10.0.0.1"},
                                                                  {"::ffff:a00:1", "10.0.0.1"}}) {
    EXPECT_EQ(ip(given).text(), text);
    EXPECT_EQ(ip(ip(given).text()), ip(given));
  }
}

TEST(IpAddress, OnlyStrictSpellingsAreRead) {
  for (const char* text :
       {"",         "1",           "1.2.3",      "1.2.3.4.5", "1.2.3.256",
        "01.2.3.4", "0x7f.0.0.1",  "1.2.3.4 ",   " 1.2.3.4",  "1.2.3.4.",
        "[::1]",    "::1%eth0",    "::1%25eth0", ":::",       "1::2::3",
        "12345::",  "::1.2.3.256", "fe80::1/64", "localhost", "0000:0000:0000:0000:0000:0000:0000:00000001"})
    EXPECT_FALSE(parse_ip(text).ok()) << text;
  EXPECT_FALSE(parse_ip(std::string_view("1.2.3.4\0", 8)).ok());
}

TEST(Cidr, ContainsItsAddressesOnly) {
  EXPECT_TRUE(block("10.0.0.0/8").contains(ip("10.255.255.255")));
  EXPECT_FALSE(block("10.0.0.0/8").contains(ip("11.0.0.0")));
  EXPECT_TRUE(block("10.0.0.0/9").contains(ip("10.127.0.1")));
  EXPECT_FALSE(block("10.0.0.0/9").contains(ip("10.128.0.1")));
  EXPECT_TRUE(block("0.0.0.0/0").contains(ip("1.2.3.4")));
  EXPECT_FALSE(block("0.0.0.0/0").contains(ip("2600::1")));
  EXPECT_FALSE(block("::/0").contains(ip("1.2.3.4")));
  EXPECT_TRUE(block("fc00::/7").contains(ip("fdff::1")));
  EXPECT_FALSE(block("fc00::/7").contains(ip("fe00::1")));
  EXPECT_TRUE(block("10.0.0.0/8").contains(block("10.1.0.0/16")));
  EXPECT_FALSE(block("10.1.0.0/16").contains(block("10.0.0.0/8")));
  EXPECT_TRUE(block("10.1.0.0/16").overlaps(block("10.0.0.0/8")));
  EXPECT_EQ(block("203.0.113.7").text(), "203.0.113.7/32");
  EXPECT_EQ(block("2600::1").text(), "2600::1/128");
}

TEST(Cidr, ABlockOfWrappedAddressesIsThatOfIpv4) {
  EXPECT_EQ(block("::ffff:10.0.0.0/104").text(), "10.0.0.0/8");
  EXPECT_FALSE(parse_cidr("::ffff:10.0.0.0/24").ok());
}

TEST(Cidr, BitsBehindThePrefixAreRefusedOrDropped) {
  auto refused = parse_cidr("10.1.2.3/8");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("10.0.0.0/8"), std::string::npos);
  EXPECT_EQ(parse_cidr("10.1.2.3/8", HostBits::kDrop)->text(), "10.0.0.0/8");
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/+8", "/8",
                           "::/129", "10.0.0.0/8/8", "10.0.0/8", "::/999"})
    EXPECT_FALSE(parse_cidr(text, HostBits::kDrop).ok()) << text;
}

struct Row {
  const char* address;
  AddressClass kind;
};

constexpr Row kRows[] = {
    {"1.1.1.1", AddressClass::kPublic},
    {"2606:4700:4700::1111", AddressClass::kPublic},
    {"0.0.0.0", AddressClass::kUnspecified},
    {"0.1.2.3", AddressClass::kUnspecified},
    {"::", AddressClass::kUnspecified},
    {"127.0.0.1", AddressClass::kLoopback},
    {"127.255.0.1", AddressClass::kLoopback},
    {"::1", AddressClass::kLoopback},
    {"169.254.0.21", AddressClass::kLinkLocal},
    {"fe80::1", AddressClass::kLinkLocal},
    {"febf::1", AddressClass::kLinkLocal},
    {"169.254.169.254", AddressClass::kMetadata},
    {"169.254.170.2", AddressClass::kMetadata},
    {"100.100.100.200", AddressClass::kMetadata},
    {"168.63.129.16", AddressClass::kMetadata},
    {"fd00:ec2::254", AddressClass::kMetadata},
    {"fd20:ce::254", AddressClass::kMetadata},
    {"10.0.0.1", AddressClass::kPrivate},
    {"172.16.0.1", AddressClass::kPrivate},
    {"172.31.255.255", AddressClass::kPrivate},
    {"172.32.0.0", AddressClass::kPublic},
    {"192.168.0.1", AddressClass::kPrivate},
    {"100.64.0.1", AddressClass::kCarrierNat},
    {"100.127.255.255", AddressClass::kCarrierNat},
    {"100.128.0.0", AddressClass::kPublic},
    {"fc00::1", AddressClass::kUniqueLocal},
    {"fdff::1", AddressClass::kUniqueLocal},
    {"224.0.0.1", AddressClass::kMulticast},
    {"239.255.255.255", AddressClass::kMulticast},
    {"ff02::1", AddressClass::kMulticast},
    {"255.255.255.255", AddressClass::kBroadcast},
    {"198.18.0.1", AddressClass::kBenchmark},
    {"198.19.255.255", AddressClass::kBenchmark},
    {"198.20.0.0", AddressClass::kPublic},
    {"2001:2::1", AddressClass::kBenchmark},
    {"192.0.2.1", AddressClass::kDocumentation},
    {"198.51.100.1", AddressClass::kDocumentation},
    {"203.0.113.1", AddressClass::kDocumentation},
    {"2001:db8::1", AddressClass::kDocumentation},
    {"3fff::1", AddressClass::kDocumentation},
    {"240.0.0.1", AddressClass::kReserved},
    {"192.0.0.1", AddressClass::kReserved},
    {"192.88.99.1", AddressClass::kReserved},
    {"fec0::1", AddressClass::kReserved},
    {"100::1", AddressClass::kReserved},
    {"2001:20::1", AddressClass::kReserved},
    {"5f00::1", AddressClass::kReserved},
    {"4000::1", AddressClass::kReserved},
};

TEST(AddressClass, EveryKind) {
  for (const Row& row : kRows)
    EXPECT_EQ(address_class_name(classify(ip(row.address))), address_class_name(row.kind)) << row.address;
}

// gateway.md section 7, from our reading of other products: private ranges are tested, and NAT64 and 6to4 are
// not decoded.
TEST(AddressClass, Ipv4InsideIpv6IsWhatItCarries) {
  for (const Row& row : std::initializer_list<Row>{{"::ffff:127.0.0.1", AddressClass::kLoopback},
                                                   {"::ffff:7f00:1", AddressClass::kLoopback},
                                                   {"::ffff:169.254.169.254", AddressClass::kMetadata},
                                                   {"::ffff:8.8.8.8", AddressClass::kPublic},
                                                   {"::127.0.0.1", AddressClass::kLoopback},
                                                   {"::10.0.0.1", AddressClass::kPrivate},
                                                   {"::8.8.8.8", AddressClass::kReserved},
                                                   {"::ffff:0:10.0.0.1", AddressClass::kPrivate},
                                                   {"::ffff:0:8.8.8.8", AddressClass::kReserved},
                                                   {"64:ff9b::a9fe:a9fe", AddressClass::kMetadata},
                                                   {"64:ff9b::192.168.1.1", AddressClass::kPrivate},
                                                   {"64:ff9b::8.8.8.8", AddressClass::kPublic},
                                                   {"64:ff9b:1::10.0.0.1", AddressClass::kPrivate},
                                                   {"64:ff9b:1::8.8.8.8", AddressClass::kReserved},
                                                   {"2002:7f00:1::", AddressClass::kLoopback},
                                                   {"2002:a00:1::1", AddressClass::kPrivate},
                                                   {"2002:808:808::1", AddressClass::kReserved},
                                                   // Teredo: server 8.8.8.8, client 10.0.0.1 inverted.
                                                   {"2001:0:808:808::f5ff:fffe", AddressClass::kPrivate},
                                                   {"2001:0:7f00:1::f7f7:f7f7", AddressClass::kLoopback},
                                                   {"2001:0:808:808::f7f7:f7f7", AddressClass::kReserved},
                                                   {"2600::5efe:10.0.0.1", AddressClass::kPrivate},
                                                   {"2600::200:5efe:7f00:1", AddressClass::kLoopback},
                                                   {"fe80::5efe:8.8.8.8", AddressClass::kLinkLocal}})
    EXPECT_EQ(address_class_name(classify(ip(row.address))), address_class_name(row.kind)) << row.address;
}

TEST(AddressClass, OnlyKindsThatLeadNowhereNearCanBeOpened) {
  for (const char* text : {"10.0.0.1", "192.168.1.1", "fd12::1", "203.0.113.1"})
    EXPECT_TRUE(may_be_opened(classify(ip(text)))) << text;
  for (const char* text :
       {"127.0.0.1", "169.254.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "240.0.0.1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"})
    EXPECT_FALSE(may_be_opened(classify(ip(text)))) << text;
}

TEST(AddressClass, OnlyABlockInsideAPrivateRangeNamesIt) {
  for (const char* text : {"10.0.0.0/8", "10.1.2.3/32", "192.168.7.0/24", "fd12::/16", "203.0.113.0/24"})
    EXPECT_TRUE(names_openable(block(text))) << text;
  for (const char* text : {"0.0.0.0/0", "::/0", "8.0.0.0/6", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
                           "198.18.0.0/15", "8.8.8.8/32", "fe80::/10", "f000::/4"})
    EXPECT_FALSE(names_openable(block(text))) << text;
}

}  // namespace
}  // namespace atl::gateway
