// SPDX-License-Identifier: Apache-2.0
//
// The vectors are AWS's own: its test suite for Signature Version 4, and the worked examples of the S3 API
// reference.
#include "gateway/vault/sigv4.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace atl::gateway::vault {
namespace {

constexpr std::string_view kSuiteKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
constexpr std::string_view kS3Key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

WallTime at(std::string_view text) { return *parse_rfc3339(text); }
std::string empty_hash() { return hex_encode(sha256("")); }

std::string signature(std::string_view authorization) {
  return std::string(authorization.substr(authorization.find("Signature=") + 10));
}

// One request of the test suite.
std::string suite(const std::string& method, const std::string& query, const std::string& hash) {
  auto now = at("2015-08-30T12:36:00Z");
  SigV4Request request{method, "example.amazonaws.com", "/", query, {{"x-amz-date", sigv4_time(now)}}, hash};
  return signature(sigv4_authorization(request, {"AKIDEXAMPLE", "us-east-1", "service", now}, kSuiteKey));
}

TEST(SigV4, GivesTheSignaturesOfTheTestSuite) {
  EXPECT_EQ(suite("GET", "", empty_hash()),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_EQ(suite("POST", "", empty_hash()),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
  EXPECT_EQ(suite("GET", "Param2=value2&Param1=value1", empty_hash()),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
}

TEST(SigV4, GivesTheSignatureOfTheGuidesExample) {
  auto now = at("2015-08-30T12:36:00Z");
  SigV4Request request{
      "GET",
      "iam.amazonaws.com",
      "/",
      "Action=ListUsers&Version=2010-05-08",
      {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"}, {"x-amz-date", sigv4_time(now)}},
      empty_hash()};
  EXPECT_EQ(sigv4_authorization(request, {"AKIDEXAMPLE", "us-east-1", "iam", now}, kSuiteKey),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
            "SignedHeaders=content-type;host;x-amz-date, "
            "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

std::string s3(const std::string& method, const std::string& path, const std::string& query,
               std::vector<std::pair<std::string, std::string>> headers, const std::string& hash) {
  auto now = at("2013-05-24T00:00:00Z");
  headers.emplace_back("x-amz-content-sha256", hash);
  headers.emplace_back("x-amz-date", sigv4_time(now));
  SigV4Request request{method, "examplebucket.s3.amazonaws.com", path, query, std::move(headers), hash};
  return signature(sigv4_authorization(request, {"AKIAIOSFODNN7EXAMPLE", "us-east-1", "s3", now}, kS3Key));
}

TEST(SigV4, GivesTheSignaturesOfTheS3Examples) {
  EXPECT_EQ(s3("GET", "/test.txt", "", {{"range", "bytes=0-9"}}, empty_hash()),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(s3("PUT", "/test%24file.text", "",
               {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
               hex_encode(sha256("Welcome to Amazon S3."))),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(s3("GET", "/", "lifecycle", {}, empty_hash()),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(s3("GET", "/", "max-keys=2&prefix=J", {}, empty_hash()),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4, EncodesThePathOnceMoreExceptForS3) {
  auto now = at("2015-08-30T12:36:00Z");
  auto sign = [&](const std::string& path, const std::string& service) {
    SigV4Request request{"GET", "h", path, "", {{"x-amz-date", sigv4_time(now)}}, empty_hash()};
    return signature(sigv4_authorization(request, {"A", "r", service, now}, "k"));
  };
  EXPECT_NE(sign("/a%20b", "s3"), sign("/a%2520b", "s3"));
  // What S3 takes as it is, another service sees encoded: signing differs.
  EXPECT_NE(sign("/a%20b", "s3"), sign("/a%20b", "sqs"));
  EXPECT_EQ(sign("", "sqs"), sign("/", "sqs"));
}

TEST(SigV4, ReadsRegionAndServiceOfARequestSignedInside) {
  auto place =
      sigv4_place("AWS4-HMAC-SHA256 Credential=FAKE/20150830/eu-west-1/sqs/aws4_request, SignedHeaders=host");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->region, "eu-west-1");
  EXPECT_EQ(place->service, "sqs");
  for (auto bad : {"", "Bearer x", "AWS4-HMAC-SHA256 Credential=F/2015/eu/sqs",
                   "Credential=F/d/eu\n/sqs/aws4_request", "Credential=F/d//sqs/aws4_request"}) {
    EXPECT_FALSE(sigv4_place(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace atl::gateway::vault
