// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/bundle.h"

#include <fmt/format.h>

#include "runner/gvisor/child.h"
#include "runner/start_parts.h"

namespace atl::runner::gvisor {
namespace {

// Those of the container tier (runner/container/profile.h), and CAP_SYS_ADMIN, with which the guest daemon
// names a copy of a sandbox and which what it starts does not get. Here they are rights in the guest's
// kernel only.
constexpr const char* kCapabilities =
    R"(["CAP_CHOWN","CAP_DAC_OVERRIDE","CAP_FOWNER","CAP_FSETID","CAP_KILL","CAP_SETGID","CAP_SETUID",)"
    R"("CAP_SETPCAP","CAP_SETFCAP","CAP_NET_BIND_SERVICE","CAP_SYS_CHROOT","CAP_AUDIT_WRITE",)"
    R"("CAP_SYS_ADMIN"])";

// The guest daemon is a file of a mount, since a program that is only a descriptor has no name in
// /proc/self/exe, which C libraries do not survive. Its mount point is in memory. The doubled braces are
// those of JSON. A network namespace with a path is one that runsc joins: the one it runs in.
constexpr const char* kConfig = R"({{
 "ociVersion": "1.0.2",
 "hostname": "{host}",
 "root": {{"path": "/rootfs", "readonly": false}},
 "process": {{
  "user": {{"uid": 0, "gid": 0}},
  "args": ["/dev/.atoll-guestd", "--boot-fd", "{boot}"],
  "env": [],
  "cwd": "/",
  "noNewPrivileges": false,
  "capabilities": {{"bounding": {caps}, "effective": {caps}, "permitted": {caps}, "inheritable": []}},
  "rlimits": [
   {{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}},
   {{"type": "RLIMIT_NOFILE", "soft": {files}, "hard": {files}}}
  ]
 }},
 "mounts": [
  {{"destination": "/proc", "type": "proc", "source": "proc"}},
  {{"destination": "/sys", "type": "sysfs", "source": "sysfs",
   "options": ["ro", "nosuid", "nodev", "noexec"]}},
  {{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "size=65536k"]}},
  {{"destination": "/dev/.atoll-guestd", "type": "bind", "source": "/guestd",
   "options": ["bind", "ro", "nosuid", "nodev"]}},
  {{"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
   "options": ["nosuid", "nodev", "mode=1777", "size={shm}"]}}
 ],
 "linux": {{
  "namespaces": [
   {{"type": "pid"}}, {{"type": "ipc"}}, {{"type": "uts"}}, {{"type": "mount"}},
   {{"type": "network", "path": "/proc/self/ns/net"}}
  ]
 }}
}}
)";

// The daemon itself needs more descriptors than a process of a user may have.
constexpr std::uint32_t kMinFiles = 65536;

}  // namespace

std::string bundle_config(const StartSpec& spec) {
  using fmt::arg;
  return fmt::format(fmt::runtime(kConfig), arg("host", spec.sandbox), arg("boot", kGuestBootFd),
                     arg("caps", kCapabilities), arg("files", std::max(spec.limits.open_files, kMinFiles)),
                     arg("shm", shm_bytes(spec.limits)));
}

}  // namespace atl::runner::gvisor
