// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/scanner.h"

#include <gtest/gtest.h>

#include <random>

namespace atl::gateway {
namespace {

using Texts = std::vector<std::string>;

std::shared_ptr<const SecretPatterns> patterns(const Texts& texts) {
  std::vector<SecretPatterns::Pattern> list;
  for (const auto& text : texts) list.push_back({Secret(text), "*"});
  return std::make_shared<SecretPatterns>(list);
}

std::string scan(const Texts& texts, std::string_view in, std::size_t step = 1) {
  SecretScanner scanner(patterns(texts));
  std::string out;
  for (std::size_t at = 0; at < in.size(); at += step) scanner.feed(in.substr(at, step), out);
  scanner.finish(out);
  return out;
}

// What the scanner must give, found the slow way: every byte that lies in some pattern is covered; a run of
// those is one star.
std::string slowly(const Texts& texts, const std::string& in) {
  std::vector<bool> covered(in.size());
  for (const auto& text : texts) {
    if (text.empty()) continue;
    for (auto at = in.find(text); at != std::string::npos; at = in.find(text, at + 1))
      std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(at), text.size(), true);
  }
  std::string out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!covered[i]) out += in[i];
    if (covered[i] && (i == 0 || !covered[i - 1])) out += '*';
  }
  return out;
}

TEST(Scanner, ReplacesHoweverTheStreamIsCut) {
  std::string text = "before sk-12345678 between sk-1234 and sk-12345678sk-12345678 after";
  for (std::size_t step : {1u, 2u, 3u, 7u, 11u, 100u})
    EXPECT_EQ(scan({"sk-12345678"}, text, step), "before * between sk-1234 and * after") << step;
}

TEST(Scanner, PatternsInsideEachOtherLeaveNothing) {
  EXPECT_EQ(scan({"abc", "abcdef"}, "abcdefg"), "*g");
  EXPECT_EQ(scan({"abc", "abcdef"}, "abcdxyz"), "*dxyz");
  EXPECT_EQ(scan({"abcd", "cdef"}, "xabcdefx"), "x*x");
  EXPECT_EQ(scan({"bc", "abcd"}, "abce"), "a*e");
  EXPECT_EQ(scan({"aa"}, "aaaaa"), "*");
  EXPECT_EQ(scan({"aab"}, "aaab"), "a*");
  EXPECT_EQ(scan({""}, "abc"), "abc");
}

TEST(Scanner, AgreesWithTheSlowWayOnRandomTexts) {
  std::mt19937 random(4711);  // NOLINT: always the same texts on purpose
  auto any = [&random](std::size_t most) {
    std::string out(1 + random() % most, '\0');
    for (auto& c : out) c = static_cast<char>('a' + random() % 3);
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    Texts texts;
    for (std::size_t i = 0; i < 1 + random() % 5; ++i) texts.push_back(any(6));
    auto in = any(60);
    EXPECT_EQ(scan(texts, in, 1 + random() % 9), slowly(texts, in)) << in;
  }
}

// What has come goes on at once; only the beginning of a secret waits, and no longer than it may still be
// one.
TEST(Scanner, HoldsBackOnlyWhatMayBecomeASecret) {
  SecretScanner scanner(patterns({"secret-value"}));
  std::string out;
  scanner.feed("data: event\n\n", out);
  EXPECT_EQ(out, "data: event\n\n");
  out.clear();
  scanner.feed("x sec", out);
  EXPECT_EQ(out, "x ");
  scanner.feed("ond\n", out);
  EXPECT_EQ(out, "x second\n");
  out.clear();
  scanner.feed("secret-value", out);
  EXPECT_EQ(out, "*");
  EXPECT_EQ(scanner.incidents(), 1u);
  scanner.feed("\n", out);
  EXPECT_EQ(out, "*\n");
}

TEST(Scanner, WhatWasFlushedStillBegins) {
  SecretScanner scanner(patterns({"secret-value", "value"}));
  std::string out;
  for (std::string_view part : {"a secret-", "val", "ue b"}) {
    scanner.feed(part, out);
    scanner.flush(out);
    out += '|';
  }
  EXPECT_EQ(out, "a secret-|val|* b|");
  EXPECT_EQ(scanner.incidents(), 1u);
}

TEST(Scanner, EachSecretHasItsOwnPlaceholder) {
  std::vector<SecretPatterns::Pattern> list;
  list.push_back({Secret("first-one"), "<1>"});
  list.push_back({Secret("second-one"), "<2>"});
  SecretPatterns both(list);
  std::string text = "first-one second-one first-on";
  EXPECT_EQ(both.replace(text), 2u);
  EXPECT_EQ(text, "<1> <2> first-on");
}

}  // namespace
}  // namespace atl::gateway
