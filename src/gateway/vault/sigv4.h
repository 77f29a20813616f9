// SPDX-License-Identifier: Apache-2.0
//
// AWS Signature Version 4 (docs.aws.amazon.com, "Create a signed AWS API request"). Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace atl::gateway::vault {

// What is signed.
struct SigV4Request {
  std::string method;
  std::string host;   // as it will be sent in Host
  std::string path;   // still percent-encoded
  std::string query;  // still percent-encoded, without '?'
  // Headers to sign, lower case, with `host` left out; those that are in the request and must not be changed.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string payload_hash;  // hexadecimal SHA-256 of the body, or one of the words that S3 takes instead
};

// With which key, and for which place and time.
struct SigV4Scope {
  std::string access_key_id;
  std::string region;
  std::string service;
  WallTime now;
};

// "20150830T123600Z", for x-amz-date.
std::string sigv4_time(WallTime now);
// The value of `authorization`. `request.headers` must have x-amz-date with sigv4_time(scope.now).
std::string sigv4_authorization(const SigV4Request& request, const SigV4Scope& scope,
                                std::string_view secret_key);

// "Credential=AKID/20150830/us-east-1/s3/aws4_request" of an authorization made elsewhere, or of
// X-Amz-Credential: its region and service. kInvalid when there is none.
struct SigV4Place {
  std::string region;
  std::string service;
};
Result<SigV4Place> sigv4_place(std::string_view authorization);

}  // namespace atl::gateway::vault
