// SPDX-License-Identifier: Apache-2.0
//
// Where the reverse front has put a server, and what that means for its answers.
#pragma once

#include <string>

#include "gateway/names/authority.h"
#include "http/message.h"

namespace atl::gateway {

// `base`, a path of the server without a slash at its end, is at `prefix` here.
struct HttpMount {
  std::string prefix;
  std::string base;
};

// A Location within the server, which is `authority`, leads to where the front has it. One that is relative
// to the page stays as it is, and so does what is beside the base, which cannot be reached here.
void remount(http::Headers& headers, const Authority& authority, bool secure, const HttpMount& mount);

}  // namespace atl::gateway
