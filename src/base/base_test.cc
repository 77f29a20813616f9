// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/random.h"
#include "base/result.h"
#include "base/text.h"

namespace atl {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return make_error(Code::kInvalid, "{} is odd", n);
  return n / 2;
}

Result<int> quarter(int n) {
  TRY(int once, half(n));
  TRY(int twice, half(once));
  return twice;
}

TEST(Result, TryPassesTheErrorOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  auto failed = quarter(6);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message(), "3 is odd");
  EXPECT_EQ(failed.error().word(), "invalid");
}

TEST(Result, ErrnoKeepsTheOperationAndNumber) {
  Error error = Error::from_errno(ENOENT, "open /x");
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_EQ(error.sys_errno(), ENOENT);
  EXPECT_EQ(error.message(), "open /x: No such file or directory");
}

TEST(Clock, Rfc3339RoundTrip) {
  auto time = parse_rfc3339("2026-02-28T23:59:59.5+01:00");
  ASSERT_TRUE(time);
  EXPECT_EQ(format_rfc3339(*time), "2026-02-28T22:59:59.500Z");
  EXPECT_TRUE(parse_rfc3339("1970-01-01T00:00:00.000Z"));
  for (const char* bad : {"", "2026", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00",
                          "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00Zx", "1969-12-31T23:59:59Z"}) {
    EXPECT_FALSE(parse_rfc3339(bad)) << bad;
  }
}

TEST(Bytes, TextForms) {
  EXPECT_EQ(hex_encode(std::string("\x00\xff", 2)), "00ff");
  EXPECT_EQ(hex_decode("00FF"), std::string("\x00\xff", 2));
  EXPECT_FALSE(hex_decode("0"));
  EXPECT_FALSE(hex_decode("zz"));
  EXPECT_EQ(base64_encode("a"), "YQ==");
  EXPECT_EQ(base64_encode("a", Padding::kNone), "YQ");
  EXPECT_EQ(base64_decode("YQ"), "a");
  EXPECT_EQ(base64_decode("YQ=="), "a");
  EXPECT_FALSE(base64_decode("Y!=="));
  EXPECT_EQ(hex_encode(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256Beginning beginning("a");
  EXPECT_EQ(beginning.with("bc"), sha256("abc"));
  EXPECT_EQ(beginning.with(""), sha256("a")) << "each goes on from the beginning alone";
}

TEST(Digest, IsBlake2bAndTheSameInParts) {
  auto digest = [](std::initializer_list<std::string_view> parts) {
    Digest out;
    for (std::string_view part : parts) out.add(std::as_bytes(std::span(part)));
    Digest::Value value = out.finish();
    return hex_encode(std::string_view(reinterpret_cast<const char*>(value.data()), value.size()));
  };
  EXPECT_EQ(digest({"abc"}), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
  EXPECT_EQ(digest({"a", "", "bc"}), digest({"abc"}));
  EXPECT_NE(digest({"abd"}), digest({"abc"}));
}

TEST(Bytes, Utf8IsStrict) {
  EXPECT_TRUE(valid_utf8("h\xc3\xa9 \xf0\x9f\x8f\x9d"));
  EXPECT_FALSE(valid_utf8("\xc0\x80"));          // overlong NUL
  EXPECT_FALSE(valid_utf8("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(valid_utf8("\xf4\x90\x80\x80"));  // beyond U+10FFFF
  EXPECT_FALSE(valid_utf8("\xe2\x82"));          // cut short
}

TEST(Text, NumbersAreWholeAndExact) {
  EXPECT_EQ(parse_number<unsigned>("65535"), 65535u);
  EXPECT_EQ(parse_number<int>("-1"), -1);
  for (const char* bad : {"", "+1", " 1", "1 ", "0x1", "1e3", "4294967296"}) {
    EXPECT_FALSE(parse_number<unsigned>(bad)) << bad;
  }
}

TEST(Text, JsonQuoteIsSafe) { EXPECT_EQ(json_quote("a\"\n\x1b\xff"), "\"a\\\"\\u000a\\u001b\xef\xbf\xbd\""); }

TEST(Random, IdsHaveTheirShape) {
  EXPECT_EQ(random_base36(20).size(), 20u);
  EXPECT_NE(random_base36(20), random_base36(20));
  EXPECT_EQ(random_uuid()[14], '4');
}

}  // namespace
}  // namespace atl
