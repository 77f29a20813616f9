// SPDX-License-Identifier: Apache-2.0
//
// Jail: a child process without rights outside. Everything that reads foreign bytes while a template is built
// runs in one: unpacking, building the Debian base, writing the image.
//
// The child has its own user namespace (offset map, docs/decisions/0051-template-jail.md), mount, process,
// IPC and host name namespaces, no_new_privs, and dies with its parent. As root inside it owns files of the
// build's uid range and nothing else.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::templates {

// Host uids and gids kJailUidBase .. +65535 belong to template builds. Directly below the range of slot 0
// (0x70000000), so that no sandbox ever shares an owner with a build.
inline constexpr std::uint32_t kJailUidBase = 0x6fff0000;
// Where the work folder is seen inside.
inline constexpr char kJailWork[] = "/mnt";

enum class Network : std::uint8_t { kNone, kHost };
enum class View : std::uint8_t {
  kHost,  // the host's files, as an unknown unprivileged user, work folder on /mnt, empty /tmp: for running
          // programs
  kWorkOnly,  // nothing but the work folder, which becomes "/"; Landlock and a system call allow-list on top:
              // for parsers
};

// A detached mount that is seen in the work folder, on an empty folder of this name.
struct Shown {
  int mount;
  std::string name;
};

// How a jail is furnished.
struct JailSpec {
  std::string work;  // absolute path of a folder owned by kJailUidBase
  Network network = Network::kNone;
  View view = View::kWorkOnly;
  int source = -1;  // kWorkOnly: a detached mount, shown as /source; the work folder holds the mount point
  std::vector<Shown> shown;  // kHost: for folders below /tmp, or below folders that are closed to others
  std::chrono::seconds time_limit{1800};
};

// Runs `job` in a jail and returns its result. Only errors and their texts cross back, through one fixed-size
// record. Blocks. The calling process must be root and have one thread.
Result<void> run_job(const JailSpec& spec, const std::function<Result<void>()>& job);

// Runs a program, named by its absolute path, in a jail with exactly `environment`. Every line that it writes
// to standard output or error goes to `on_line`; a failure's text carries the last of them. Blocks; same
// conditions as run_job.
Result<void> run_program(const JailSpec& spec, const std::vector<std::string>& argv,
                         const std::vector<std::string>& environment,
                         const std::function<void(std::string_view line)>& on_line);

// A detached, read-only mount of `folder`, in which owner 0 of the disk is owner 0 of the jail: a job can
// read all of it and change none of it. KERNEL: mount_setattr(2) MOUNT_ATTR_IDMAP, Linux 5.12; not on every
// file system.
Result<sys::Fd> mapped_view(const std::string& folder);

}  // namespace atl::templates
