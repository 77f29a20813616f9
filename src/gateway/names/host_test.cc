// SPDX-License-Identifier: Apache-2.0
#include "gateway/names/host.h"

#include <gtest/gtest.h>

#include "gateway/names/host_pattern.h"

namespace atl::gateway {
namespace {

struct Row {
  const char* given;
  const char* canonical;
};

constexpr Row kNames[] = {
    {"example.com", "example.com"},
    {"EXAMPLE.com", "example.com"},
    {"example.com.", "example.com"},
    {"a", "a"},
    {"xn--bcher-kva.example", "xn--bcher-kva.example"},
    {"b\xc3\xbc\x63her.example", "xn--bcher-kva.example"},
    {"B\xc3\x9c\x43HER.example", "xn--bcher-kva.example"},
    {"bu\xcc\x88\x63her.example", "xn--bcher-kva.example"},  // u and a combining diaeresis
    {"fa\xc3\x9f.de", "xn--fa-hia.de"},                      // non-transitional: not fass.de
    {"\xe2\x93\x94xample.com", "example.com"},               // circled e
    {"example\xe3\x80\x82\x63om", "example.com"},            // ideographic full stop
    {"r3---sn-4g5e6nsz.example.com", "r3---sn-4g5e6nsz.example.com"},
    {"1.2.3.4.example", "1.2.3.4.example"},
    {"0xg.example0", "0xg.example0"},
};

TEST(Host, NamesHaveOneSpelling) {
  for (const Row& row : kNames) {
    auto host = parse_host(row.given);
    ASSERT_TRUE(host.ok()) << row.given << ": " << host.error().message();
    EXPECT_EQ(host->text(), row.canonical) << row.given;
    EXPECT_FALSE(host->is_address());
    EXPECT_EQ(parse_host(host->text()).value(), *host);
  }
}

constexpr Row kAddresses[] = {
    {"127.0.0.1", "127.0.0.1"},
    {"127.0.0.1.", "127.0.0.1"},
    {"127.1", "127.0.0.1"},
    {"127.0.1", "127.0.0.1"},
    {"2130706433", "127.0.0.1"},
    {"0x7f000001", "127.0.0.1"},
    {"0X7F.0.0.1", "127.0.0.1"},
    {"0x7f.1", "127.0.0.1"},
    {"0177.0.0.01", "127.0.0.1"},
    {"017700000001", "127.0.0.1"},
    {"0x7f.0x0.0x0.0x1", "127.0.0.1"},
    {"169.254.43518", "169.254.169.254"},
    {"0xa9fea9fe", "169.254.169.254"},
    {"0", "0.0.0.0"},
    {"0x", "0.0.0.0"},
    {"4294967295", "255.255.255.255"},
    {"\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", "127.0.0.1"},  // full-width digits
    {"127\xe3\x80\x82\x30\xe3\x80\x82\x30\xe3\x80\x82\x31", "127.0.0.1"},
    {"[::1]", "[::1]"},
    {"[0:0:0:0:0:0:0:1]", "[::1]"},
    {"[::ffff:127.0.0.1]", "127.0.0.1"},
    {"[::FFFF:7F00:1]", "127.0.0.1"},
    {"[2001:DB8::1]", "[2001:db8::1]"},
};

// "all spellings" of the address guard in gateway.md section 9.
TEST(Host, EverySpellingOfAnAddressIsThatAddress) {
  for (const Row& row : kAddresses) {
    auto host = parse_host(row.given);
    ASSERT_TRUE(host.ok()) << row.given << ": " << host.error().message();
    EXPECT_TRUE(host->is_address()) << row.given;
    EXPECT_EQ(host->text(), row.canonical) << row.given;
    EXPECT_EQ(parse_host(host->text()).value(), *host);
  }
}

TEST(Host, RefusesWhatIsNeither) {
  for (const char* text : {"",
                           ".",
                           "..",
                           "a..b",
                           ".a",
                           "a..",
                           "a b",
                           "a_b.com",
                           "a%2eb",
                           "%61.com",
                           "a/b",
                           "a\\b",
                           "a@b",
                           "a:80",
                           "::1",
                           "1:2",
                           "[::1",
                           "::1]",
                           "[::1]x",
                           "[]",
                           "[1.2.3.4]",
                           "[::1%eth0]",
                           "[::1%25lo]",
                           "[fe80::1%1]",
                           "[v1.a]",
                           "[[::1]]",
                           "[ ::1]",
                           "256.1.1.1",
                           "1.2.3.4.5",
                           "1.2.3.256",
                           "4294967296",
                           "09",
                           "1.2.3.08",
                           "0x1ffffffff",
                           "1..2",
                           "1.2.3.a.4",
                           "foo.0x",
                           "foo.1",
                           "foo.0x1",
                           "99999999999999999999999",
                           "-a.com",
                           "a-.com",
                           "a.com\r\nx",
                           "a\tb",
                           "*.a.com",
                           "a.*",
                           "a?b",
                           "a#b",
                           "\xff\xfe.com",
                           "\xe2\x80\x8b",
                           "a\xe2\x80\xae.com",
                           "xn--\xc3\xbc.com"})
    EXPECT_FALSE(parse_host(text).ok()) << text << " became " << parse_host(text).value().text();
  EXPECT_FALSE(parse_host(std::string_view("good.com\0.evil.com", 18)).ok());
  EXPECT_FALSE(parse_host(std::string_view("b\xc3\xbc\0.com", 8)).ok());
}

TEST(Host, BoundsOfDns) {
  std::string label63(63, 'a');
  std::string name253 = label63 + "." + label63 + "." + label63 + "." + std::string(61, 'b');
  EXPECT_TRUE(parse_host(name253).ok());
  EXPECT_TRUE(parse_host(name253 + ".").ok());
  EXPECT_FALSE(parse_host(name253 + "b").ok());
  EXPECT_FALSE(parse_host(label63 + "a.com").ok());
  EXPECT_FALSE(parse_host(std::string(100000, 'a')).ok());
}

TEST(Host, SaysWhy) {
  auto error = parse_host("a_b.com").error();
  EXPECT_EQ(error.word(), "invalid_host");
  EXPECT_EQ(error.message(), "'a_b.com' is not a host: only letters, digits and hyphens can be in a name");
}

HostPattern pattern(std::string_view text) { return parse_host_pattern(text).value(); }
Host host(std::string_view text) { return parse_host(text).value(); }

TEST(HostPattern, ExactAndWildcard) {
  EXPECT_TRUE(pattern("Example.COM.").matches(host("example.com")));
  EXPECT_FALSE(pattern("example.com").matches(host("a.example.com")));
  EXPECT_TRUE(pattern("*.example.com").matches(host("a.example.com")));
  EXPECT_TRUE(pattern("*.example.com").matches(host("a.b.example.com")));
  EXPECT_FALSE(pattern("*.example.com").matches(host("example.com")));
  EXPECT_TRUE(pattern("*").matches(host("example.com")));
  EXPECT_TRUE(pattern("*").any_name());
  EXPECT_FALSE(pattern("*.com").any_name());
  EXPECT_TRUE(pattern("*.b\xc3\xbc\x63her.example").matches(host("a.xn--bcher-kva.example")));
}

// tinyproxy/tinyproxy#627: "untrusted.net" passed the filter "trusted.net".
TEST(HostPattern, Tinyproxy627SuffixNeedsALabelBoundary) {
  EXPECT_FALSE(pattern("*.trusted.net").matches(host("untrusted.net")));
  EXPECT_FALSE(pattern("trusted.net").matches(host("untrusted.net")));
  EXPECT_FALSE(pattern("trusted.net").matches(host("trusted.net.evil.com")));
  EXPECT_FALSE(pattern("*.trusted.net").matches(host("a.trusted.net.evil.com")));
}

// gateway.md section 7: a '*' that spans dots and needs no boundary lets an address or "1.2.3.4.nip.io" pass.
TEST(HostPattern, NoWildcardMatchesAnAddress) {
  for (const char* text : {"*", "*.example.com"}) {
    EXPECT_FALSE(pattern(text).matches(host("1.2.3.4"))) << text;
    EXPECT_FALSE(pattern(text).matches(host("0x01020304"))) << text;
    EXPECT_FALSE(pattern(text).matches(host("[2600::1]"))) << text;
    EXPECT_FALSE(pattern(text).matches_address(IpAddress::v4(0x01020304))) << text;
  }
  EXPECT_TRUE(pattern("1.2.3.4").matches(host("0x01020304")));
}

// anthropic-experimental/sandbox-runtime#65: rules for addresses and blocks besides names.
TEST(HostPattern, SandboxRuntime65AddressesAndBlocks) {
  EXPECT_TRUE(pattern("10.0.0.0/8").matches(host("10.1.2.3")));
  EXPECT_FALSE(pattern("10.0.0.0/8").matches(host("11.1.2.3")));
  EXPECT_FALSE(pattern("10.0.0.0/8").matches(host("10.example")));
  EXPECT_TRUE(pattern("fc00::/7").matches(host("[fd00::1]")));
  EXPECT_TRUE(pattern("2600::1").matches(host("[2600::1]")));
  EXPECT_TRUE(pattern("[2600::1]").matches(host("[2600::1]")));
  EXPECT_TRUE(pattern("0x7f.1").matches(host("127.0.0.1")));
  EXPECT_EQ(pattern("10.0.0.0/8").text(), "10.0.0.0/8");
  EXPECT_EQ(pattern("10.0.0.1").text(), "10.0.0.1");
  EXPECT_EQ(pattern("*.Example.com").text(), "*.example.com");
}

TEST(HostPattern, RefusesOtherForms) {
  for (const char* text : {"",
                           "*.",
                           "*.*",
                           "**",
                           "*.*.com",
                           "a*.com",
                           "*a.com",
                           "*com",
                           "a.*.com",
                           "*.1.2.3.4",
                           "*.10",
                           "10.0.0.1/8",
                           "10.0.0.0/33",
                           "example.com/24",
                           "example.com:443",
                           "*:443",
                           "http://a",
                           "[::1]/128",
                           "a b",
                           "*.[::1]"})
    EXPECT_FALSE(parse_host_pattern(text).ok()) << text;
  EXPECT_EQ(parse_host_pattern("10.0.0.1/8", HostBits::kDrop)->text(), "10.0.0.0/8");
}

}  // namespace
}  // namespace atl::gateway
