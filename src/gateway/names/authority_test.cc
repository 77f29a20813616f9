// SPDX-License-Identifier: Apache-2.0
#include "gateway/names/authority.h"

#include <gtest/gtest.h>

namespace atl::gateway {
namespace {

Authority authority(std::string_view text) { return parse_authority(text, 0).value(); }

TEST(Authority, HostAndPort) {
  EXPECT_EQ(authority("Example.com:443").text(), "example.com:443");
  EXPECT_EQ(authority("[2001:DB8::1]:80").text(), "[2001:db8::1]:80");
  EXPECT_EQ(authority("0x7f.1:1").text(), "127.0.0.1:1");
  EXPECT_EQ(parse_authority("example.com", 443)->text(), "example.com:443");
  EXPECT_EQ(parse_authority("example.com:80", 443)->text(), "example.com:80");
  EXPECT_EQ(parse_authority("[::1]", 443)->text(), "[::1]:443");
}

// gateway.md section 7: splitting at the first ':' breaks IPv6, strip_port("[::1]:443") yields "[".
TEST(Authority, PortIsBehindTheBracket) {
  EXPECT_EQ(authority("[::1]:443").host, Host(parse_ip("::1").value()));
  EXPECT_FALSE(parse_authority("::1:443", 0).ok());
  EXPECT_FALSE(parse_authority("::1", 443).ok());
}

TEST(Authority, RefusesOtherForms) {
  for (const char* text :
       {"",       ":",           ":80",     "a:",      "a:0",     "a:080",     "a:65536",      "a:+80",
        "a:-1",   "a:80 ",       "a: 80",   "a:80:80", "a:http",  "user@a:80", "user:pw@a:80", "a:80/",
        "a/b:80", "http://a:80", "[::1]80", "[::1]:",  "[::1:80", "a\\b:80",   "a,b:80"})
    EXPECT_FALSE(parse_authority(text, 443).ok()) << text;
  EXPECT_FALSE(parse_authority("a", 0).ok());
}

TEST(Agree, OneValueFromEqualClaims) {
  AuthorityClaims claims{.dialled = authority("api.example:443"),
                         .sni = "API.example.",
                         .host = "api.example",
                         .absolute = "Api.Example:443"};
  EXPECT_EQ(agree(claims)->text(), "api.example:443");
  EXPECT_EQ(agree({.sni = "a.example", .default_port = 443})->text(), "a.example:443");
  EXPECT_EQ(agree({.host = "a.example:8080", .default_port = 80})->text(), "a.example:8080");
  // A port that is not told contradicts nothing.
  EXPECT_EQ(agree({.dialled = authority("a.example:8443"), .host = "a.example"})->text(), "a.example:8443");
  EXPECT_EQ(agree({.dialled = authority("1.2.3.4:80"), .host = "1.2.3.4"})->text(), "1.2.3.4:80");
  EXPECT_EQ(agree({.dialled = authority("1.2.3.4:80")})->text(), "1.2.3.4:80");
}

// D2 and the acceptance bar: every mismatch of {connection, SNI, Host, absolute URI} is refused, in all 2^4
// sets of claims.
TEST(Agree, EverySetOfMismatchesIsMisdirected) {
  const Authority good = authority("good.example:443"), evil = authority("evil.example:443");
  for (unsigned present = 1; present < 16; ++present) {
    for (unsigned other = 0; other < 16; ++other) {
      if ((other & ~present) != 0) continue;
      AuthorityClaims claims{.default_port = 443};
      if (present & 1) claims.dialled = other & 1 ? evil : good;
      if (present & 2) claims.sni = other & 2 ? "evil.example" : "good.example";
      if (present & 4) claims.host = other & 4 ? "evil.example" : "good.example";
      if (present & 8) claims.absolute = other & 8 ? "evil.example" : "good.example";
      auto result = agree(claims);
      bool equal = other == 0 || other == present;
      ASSERT_EQ(result.ok(), equal) << present << " " << other;
      if (equal) {
        EXPECT_EQ(*result, other == 0 ? good : evil);
      } else {
        EXPECT_EQ(result.error().word(), "misdirected");
        EXPECT_NE(result.error().message().find("evil.example"), std::string::npos);
        EXPECT_NE(result.error().message().find("good.example"), std::string::npos);
      }
    }
  }
}

TEST(Agree, SaysWhichTwoDisagree) {
  auto error =
      agree({.dialled = authority("a.example:443"), .sni = "a.example", .host = "b.example"}).error();
  EXPECT_EQ(error.message(), "the connection is for a.example:443, but the Host field says b.example");
  auto ports = agree({.dialled = authority("a.example:443"), .host = "a.example:8443"}).error();
  EXPECT_EQ(ports.message(), "the connection is for a.example:443, but the Host field says a.example:8443");
}

// coder/httpjail#57: an absolute URI inside an intercepted tunnel overrode the host that was checked.
TEST(Agree, Httpjail57AbsoluteUriInsideATunnel) {
  EXPECT_FALSE(agree({.dialled = authority("allowed.example:443"),
                      .sni = "allowed.example",
                      .host = "allowed.example",
                      .absolute = "evil.example"})
                   .ok());
}

// superradcompany/microsandbox#709, #836, #986: domain fronting; then :authority, CONNECT and SNI.
TEST(Agree, Microsandbox709DomainFronting) {
  EXPECT_FALSE(
      agree({.dialled = authority("front.example:443"), .sni = "front.example", .host = "hidden.example"})
          .ok());
}

// agentcage/agentcage#175, #214: SNI differs from Host, or from what was dialled.
TEST(Agree, Agentcage175SniDiffersFromHost) {
  EXPECT_FALSE(agree({.sni = "a.example", .host = "b.example", .default_port = 443}).ok());
  EXPECT_FALSE(agree({.dialled = authority("a.example:443"), .sni = "b.example"}).ok());
}

// Wide-Moat/open-computer-use#198: on the leg that is not inspected nobody compared the server name with what
// was dialled.
TEST(Agree, OpenComputerUse198TheLegThatIsNotInspected) {
  EXPECT_FALSE(agree({.dialled = authority("allowed.example:443"), .sni = "hidden.example"}).ok());
  EXPECT_FALSE(
      agree({.dialled = authority("allowed.example:443"), .sni = "allowed.example.evil.example"}).ok());
}

// superradcompany/microsandbox#752: a request to a proxy outside names another host than the connection is
// for.
TEST(Agree, Microsandbox752AProxyBehindPort80) {
  EXPECT_FALSE(
      agree({.dialled = authority("proxy.example:80"), .host = "proxy.example", .absolute = "target.example"})
          .ok());
  EXPECT_FALSE(agree({.dialled = authority("proxy.example:80"), .host = "target.example:443"}).ok());
}

// gateway.md section 5: absolute URI and Host differ, and user information that hides the host.
TEST(Agree, Section5AbsoluteUriDiffersFromHost) {
  EXPECT_FALSE(agree({.host = "a.example", .absolute = "b.example", .default_port = 80}).ok());
  EXPECT_FALSE(agree({.host = "a.example", .absolute = "evil@a.example", .default_port = 80}).ok());
}

// apache/trafficserver#7348: the policy of one SNI evaded by a Host that only looks different.
TEST(Agree, Trafficserver7348SpellingsAreNoDifference) {
  EXPECT_TRUE(agree({.dialled = authority("secret.example:443"),
                     .sni = "SECRET.example",
                     .host = "secret.EXAMPLE.:443"})
                  .ok());
}

// dust-tt/dust#24656: a rule for a name does not cover a connection made by address, so the name is not
// believed.
TEST(Agree, Dust24656ANameInsideAConnectionToAnAddress) {
  EXPECT_FALSE(agree({.dialled = authority("1.2.3.4:443"), .sni = "allowed.example"}).ok());
  EXPECT_FALSE(agree({.dialled = authority("1.2.3.4:80"), .host = "allowed.example"}).ok());
  EXPECT_FALSE(agree({.dialled = authority("1.2.3.4:80"), .host = "1.2.3.5"}).ok());
  EXPECT_FALSE(agree({.dialled = authority("allowed.example:80"), .host = "1.2.3.4"}).ok());
}

TEST(Agree, RefusesWhatCannotBeRead) {
  auto error = agree({.dialled = authority("a.example:80"), .host = "user@a.example"}).error();
  EXPECT_EQ(error.word(), "invalid_host");
  EXPECT_TRUE(error.message().starts_with("the Host field: ")) << error.message();
  EXPECT_FALSE(agree({.dialled = authority("a.example:80"), .host = ""}).ok());
  EXPECT_FALSE(agree({.dialled = authority("a.example:443"), .sni = "a.example:443"}).ok());
  EXPECT_FALSE(agree({.default_port = 443}).ok());
  EXPECT_FALSE(agree({.host = "a.example"}).ok());
}

}  // namespace
}  // namespace atl::gateway
