// SPDX-License-Identifier: Apache-2.0
//
// Paths as clients write them, and opening them with the rights of a user.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guest/accounts.h"
#include "guest/identity.h"
#include "guest/posix.h"

namespace atl::guest {

// The absolute, normalised path that a client means: empty is the working directory, "~" and "~/x" are in the
// home directory, a relative path is in the home directory. "." and ".." are removed by text, as E2B does.
// kInvalid for NUL, bytes that are not UTF-8, and paths or names that are too long.
Result<std::string> normal_path(std::string_view given, std::string_view home, std::string_view workdir);

std::string_view parent_path(std::string_view path);  // "/" for "/" and "/x"
std::string_view base_name(std::string_view path);    // "/" for "/"
std::string join_path(std::string_view directory, std::string_view name);

// How a path is walked.
//   kUser     with the rights of the thread, over any symbolic link that the kernel allows
//   kTrusted  as root, but only over symbolic links that root owns: nobody else could have laid the way
enum class Rights { kUser, kTrusted };

// Opens `path` with open(2) flags. Never through a magic link of /proc, never waiting for a FIFO's other end.
Result<Fd> open_path(const std::string& path, int flags, Rights rights);

// E2B serves file calls as root whoever the user is, and clients rely on that (writing to /srv as `user`
// works). So: first as the user; only when the kernel says no to that, as root along the trusted way.
// `op(rights)` runs on the calling thread, once or twice.
template <class Op>
auto with_rights(const User& user, Op op) -> decltype(op(Rights::kUser)) {
  {
    ActAs as(user.identity);
    auto result = op(Rights::kUser);
    bool refused =
        !result.ok() && (result.error().sys_errno() == EACCES || result.error().sys_errno() == EPERM);
    if (!refused || user.identity.root()) return result;
  }
  return op(Rights::kTrusted);
}

// Opens the directory `path` (O_PATH), making what is missing with mode 0755. In the trusted way what was
// made is given to `user`.
Result<Fd> ensure_directories(const std::string& path, const User& user, Rights rights);

// A pseudo file system (proc, sysfs, cgroup, ...), whose files are kernel interfaces.
bool on_kernel_file_system(int fd);

// Names in a directory, without "." and "..", unsorted. The descriptor must be readable; it is read from its
// start. Beyond `limit` names: kExhausted, or only the first ones.
enum class Beyond { kFails, kIsLeftOut };
Result<std::vector<std::string>> read_names(int directory, std::size_t limit, Beyond beyond = Beyond::kFails);

// The path that a descriptor refers to now.
Result<std::string> path_of(int fd);
// "/proc/self/fd/N": a name for an O_PATH descriptor in calls that take none.
std::string descriptor_path(int fd);

}  // namespace atl::guest
