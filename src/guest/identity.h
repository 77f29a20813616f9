// SPDX-License-Identifier: Apache-2.0
//
// Acting as a user on one thread only. The daemon is root of the sandbox; a file operation runs with the file
// system rights of the user it is for, so that a link planted by the workload never reaches further than that
// user.
#pragma once

#include <string>
#include <string_view>

#include "guest/accounts.h"

namespace atl::guest {

// The calling thread has the file system identity of `identity` while this object lives. Nests: the previous
// identity comes back. A daemon that is not root itself stays who it is.
class ActAs {
 public:
  explicit ActAs(const Identity& identity);
  ~ActAs();
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;

 private:
  Identity previous_;
};

// Numbers of one map file (/proc/self/uid_map) that exist in this user namespace. Everything when unreadable.
bool number_is_mapped(std::string_view map, std::uint32_t number);
// False when the kernel would refuse to switch to it; such a user is treated as unknown.
bool usable(const Identity& identity);

}  // namespace atl::guest
