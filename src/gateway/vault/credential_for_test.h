// SPDX-License-Identifier: Apache-2.0
//
// Credentials and requests for tests.
#pragma once

#include <gtest/gtest.h>

#include "gateway/vault/apply.h"

namespace atl::gateway::vault {

inline CredentialPtr credential(boost::json::object config, std::string_view secret,
                                const std::string& id = "sec_1") {
  auto parsed = parse_config(config);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  SecretRow row;
  row.id = id;
  row.tenant = "t1";
  row.name = "test";
  return std::make_shared<const Credential>(Credential{row, std::move(*parsed), Locked::copy_of(secret)});
}

inline http::RequestHead request(std::string target = "/v1/x", http::Headers headers = {}) {
  http::RequestHead out;
  out.method = "POST";
  out.target = std::move(target);
  out.authority = "api.example.com";
  out.headers = std::move(headers);
  return out;
}

// The text of all headers of that name, "|" between them.
inline std::string all_of(const http::Headers& headers, std::string_view name) {
  std::string out;
  for (const auto& header : headers) {
    if (header.name == name) out += (out.empty() ? "" : "|") + header.value;
  }
  return out;
}

}  // namespace atl::gateway::vault
