// SPDX-License-Identifier: Apache-2.0
//
// The key store of Java's trust (format JKS, Debian's /etc/ssl/certs/java/cacerts): Java reads no PEM.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::guest {

// `store` with one more trusted certificate (PEM) under our alias, in place of an earlier one of that alias.
// kUnsupported when it is no store of that format, or holds more than trusted certificates; kInvalid when the
// certificate cannot be read.
Result<std::string> with_trusted(std::string_view store, std::string_view pem, std::int64_t unix_ms);

// The format ends with a digest under this word. Java checks it only for who names the word, as keytool does.
inline constexpr std::string_view kJavaPassword = "changeit";

}  // namespace atl::guest
