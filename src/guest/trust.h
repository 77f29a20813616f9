// SPDX-License-Identifier: Apache-2.0
//
// What programs in the sandbox trust: the certificate authority with which the gateway opens connections that
// it must look into. Put where the system's tools look, and named to those that look elsewhere.
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace atl::guest {

// The authority as control tells it.
struct Authority {
  std::string pem;   // its certificate; empty: there is none
  std::string hash;  // of its subject, eight hexadecimal digits: the name by which OpenSSL finds it
};

// kInvalid when it is not in that form.
Result<void> check_authority(const Authority& authority);
// Writes the files below `root` ("" in a sandbox). May be repeated; an older authority goes. Blocking.
Result<void> install_authority(const std::string& root, const Authority& authority);
// Adds the variables that tools read which do not use the system's store; those that are there stay.
void add_trust_variables(std::map<std::string, std::string>& environment);

}  // namespace atl::guest
