// SPDX-License-Identifier: Apache-2.0
#include "runner/kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/random.h"
#include "sys/files.h"
#include "sys/mount.h"

namespace atl::runner {
namespace {

struct Device {
  const char* name;
  unsigned minor;
  unsigned major;
};
// Numbers are fixed by the kernel (Documentation/admin-guide/devices.txt).
constexpr Device kDevices[] = {{"dev/null", 3, 1},   {"dev/zero", 5, 1},    {"dev/full", 7, 1},
                               {"dev/random", 8, 1}, {"dev/urandom", 9, 1}, {"dev/tty", 0, 5}};

constexpr const char* kLinks[][2] = {{"/proc/self/fd", "dev/fd"},
                                     {"/proc/self/fd/0", "dev/stdin"},
                                     {"/proc/self/fd/1", "dev/stdout"},
                                     {"/proc/self/fd/2", "dev/stderr"},
                                     {"pts/ptmx", "dev/ptmx"}};

constexpr const char* kDirectories[] = {"dev",
                                        "dev/pts",
                                        "dev/shm",
                                        "empty",
                                        "sys",
                                        "sys/devices",
                                        "sys/devices/system",
                                        "sys/devices/system/cpu",
                                        "sys/fs",
                                        "sys/fs/cgroup",
                                        "sys/kernel",
                                        "sys/kernel/mm",
                                        "sys/kernel/mm/transparent_hugepage",
                                        "sys/class"};

// Copied from the host: how many processors, and the size of large pages.
constexpr const char* kCopied[] = {
    "sys/devices/system/cpu/online", "sys/devices/system/cpu/possible", "sys/devices/system/cpu/present",
    "sys/kernel/mm/transparent_hugepage/enabled", "sys/kernel/mm/transparent_hugepage/hpage_pmd_size"};

class KitBuilder {
 public:
  KitBuilder(int root, std::uint32_t owner) : root_(root), owner_(owner) {}

  Result<void> build() {
    TRY_VOID(own("."));
    for (const char* path : kDirectories) {
      if (::mkdirat(root_, path, 0755) != 0) return failed(path);
      TRY_VOID(own(path));
    }
    for (const Device& device : kDevices) {
      if (::mknodat(root_, device.name, S_IFCHR | 0666, makedev(device.major, device.minor)) != 0)
        return failed(device.name);
      // The mask of this process must not decide who may read /dev/null.
      if (::fchmodat(root_, device.name, 0666, 0) != 0) return failed(device.name);
      TRY_VOID(own(device.name));
    }
    for (const auto& link : kLinks) {
      if (::symlinkat(link[0], root_, link[1]) != 0) return failed(link[1]);
      TRY_VOID(own(link[1]));
    }
    for (const char* path : kCopied) {
      Result<std::string> text = sys::read_file(std::string("/") + path);
      if (text.ok()) TRY_VOID(file(path, *text));  // a host without it: so has the sandbox
    }
    // A boot of its own: a kit is used once.
    TRY_VOID(file("boot_id", random_uuid() + "\n"));
    return file("null", "");
  }

 private:
  Error failed(const char* path) {
    return Error::from_errno(errno, fmt::format("make {} of a slot's kit", path));
  }

  Result<void> own(const char* path) {
    if (::fchownat(root_, path, owner_, owner_, AT_SYMLINK_NOFOLLOW) != 0) return failed(path);
    return success();
  }

  Result<void> file(const char* path, const std::string& text) {
    TRY(sys::Fd fd, sys::open_at(root_, path, O_WRONLY | O_CREAT | O_EXCL, 0444));
    TRY_VOID(sys::write_all(fd.get(), text));
    return own(path);
  }

  int root_;
  std::uint32_t owner_;
};

}  // namespace

Result<sys::Fd> build_kit(std::uint32_t owner) {
  // Device nodes work here because the file system belongs to the host's user namespace. It is only ever
  // mounted read-only in a sandbox, and the sandbox can make no nodes.
  TRY(sys::Fd kit,
      sys::mount_new("tmpfs", {{"size", "256k"}, {"nr_inodes", "128"}, {"mode", "0755"}}, sys::kNoSuid));
  TRY_VOID(KitBuilder(kit.get(), owner).build());
  TRY_VOID(sys::restrict_mount(kit.get(), sys::kReadOnly | sys::kNoSuid | sys::kNoExec));
  return kit;
}

}  // namespace atl::runner
