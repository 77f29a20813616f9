// SPDX-License-Identifier: Apache-2.0
#include "guest/java_store.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace atl::guest {
namespace {

std::string pem(const std::string& der) {
  return "-----BEGIN CERTIFICATE-----\n" + base64_encode(der) + "\n-----END CERTIFICATE-----\n";
}

std::string number(std::uint32_t value, int bytes) {
  std::string out;
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

std::string entry(const std::string& alias, const std::string& der, std::uint32_t kind = 2) {
  return number(kind, 4) + number(static_cast<std::uint32_t>(alias.size()), 2) + alias + number(0, 4) +
         number(7, 4) + number(5, 2) + "X.509" + number(static_cast<std::uint32_t>(der.size()), 4) + der;
}

std::string store_of(const std::string& entries, std::uint32_t count) {
  return number(0xfeedfeed, 4) + number(2, 4) + number(count, 4) + entries + std::string(20, '\0');
}

TEST(JavaStore, AddsItsOwnAndKeepsTheOthers) {
  std::string others = entry("one", "ONE") + entry("two", "TWO");
  auto made = with_trusted(store_of(others, 2), pem("OURS"), 7);
  ASSERT_TRUE(made.ok()) << made.error().message();
  std::string wanted = store_of(others + entry("atoll-gateway", "OURS"), 3);
  EXPECT_EQ(made->substr(0, made->size() - 20), wanted.substr(0, wanted.size() - 20));
  auto again = with_trusted(*made, pem("NEW"), 7);
  ASSERT_TRUE(again.ok());
  wanted = store_of(others + entry("atoll-gateway", "NEW"), 3);
  EXPECT_EQ(again->substr(0, again->size() - 20), wanted.substr(0, wanted.size() - 20));
}

// The digest as another implementation of SHA-1 makes it.
TEST(JavaStore, EndsWithTheDigestThatJavaExpects) {
  auto made = with_trusted(store_of("", 0), pem("OURS"), 7);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(hex_encode(made->substr(made->size() - 20)), "cb2e2d64b91a2d296ee3714f02038d48c8c36bde");
}

TEST(JavaStore, WhatItDoesNotKnowStaysAsItIs) {
  std::string fine = store_of(entry("one", "ONE"), 1);
  for (const std::string& store :
       {std::string(), std::string("0\x82\x01\x02", 4) + std::string(100, 'x'), fine.substr(0, 40),
        store_of(entry("one", "ONE"), 2), store_of(entry("one", "ONE") + "more", 1),
        store_of(entry("key", "KEY", 1), 1)})
    EXPECT_EQ(with_trusted(store, pem("OURS"), 7).error().code(), Code::kUnsupported) << hex_encode(store);
  EXPECT_EQ(with_trusted(fine, "no certificate", 7).error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace atl::guest
