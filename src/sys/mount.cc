// SPDX-License-Identifier: Apache-2.0
#include "sys/mount.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

// Of sys/mount.h, which cannot be included beside linux/mount.h with this C library.
extern "C" int mount(const char*, const char*, const char*, unsigned long, const void*) noexcept;
extern "C" int umount2(const char*, int) noexcept;

namespace atl::sys {
namespace {

constexpr unsigned long kMsRec = 16384;
constexpr unsigned long kMsSlave = 1 << 19;
constexpr int kMntDetach = 2;

unsigned attributes(unsigned flags) {
  unsigned out = 0;
  if ((flags & kReadOnly) != 0) out |= MOUNT_ATTR_RDONLY;
  if ((flags & kNoSuid) != 0) out |= MOUNT_ATTR_NOSUID;
  if ((flags & kNoDev) != 0) out |= MOUNT_ATTR_NODEV;
  if ((flags & kNoExec) != 0) out |= MOUNT_ATTR_NOEXEC;
  return out;
}

// What the file system itself says about a failed step; fs contexts carry a log (fsopen(2)).
std::string context_log(int context) {
  char buffer[256];
  ssize_t n = ::read(context, buffer, sizeof buffer);
  if (n <= 0) return {};
  std::string text(buffer, static_cast<std::size_t>(n));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return " (" + text + ")";
}

}  // namespace

Result<Fd> mount_new(const std::string& type, const std::vector<MountOption>& options, unsigned flags) {
  Fd context(static_cast<int>(::syscall(SYS_fsopen, type.c_str(), FSOPEN_CLOEXEC)));
  if (!context) return Error::from_errno(errno, fmt::format("open file system type {}", type));
  for (const MountOption& option : options) {
    bool flag = option.value.empty();
    long done = ::syscall(SYS_fsconfig, context.get(), flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING,
                          option.key.c_str(), flag ? nullptr : option.value.c_str(), 0);
    int saved = errno;
    if (done != 0) {
      return Error::from_errno(saved, fmt::format("{} option {}={}{}", type, option.key, option.value,
                                                  context_log(context.get())));
    }
  }
  if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    int saved = errno;
    return Error::from_errno(saved, fmt::format("mount {}{}", type, context_log(context.get())));
  }
  Fd mount(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, attributes(flags))));
  if (!mount) return Error::from_errno(errno, fmt::format("mount {}", type));
  return mount;
}

Result<Fd> clone_mount(int directory, const std::string& path) {
  unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (path.empty() ? AT_EMPTY_PATH : 0);
  Fd copy(static_cast<int>(::syscall(SYS_open_tree, directory, path.c_str(), flags)));
  if (!copy) return Error::from_errno(errno, fmt::format("clone mount {}", path));
  return copy;
}

Result<void> idmap_mount(int mount, int userns) {
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_IDMAP;
  attr.userns_fd = static_cast<unsigned>(userns);
  if (::syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &attr, sizeof attr) != 0) {
    return Error::from_errno(errno, "map owners of a mount");
  }
  return success();
}

Result<void> restrict_mount(int mount, unsigned flags) {
  mount_attr attr{};
  attr.attr_set = attributes(flags);
  if (::syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &attr, sizeof attr) != 0) {
    return Error::from_errno(errno, "restrict a mount");
  }
  return success();
}

Result<void> attach_mount(int mount, const std::string& path) {
  if (::syscall(SYS_move_mount, mount, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return Error::from_errno(errno, fmt::format("attach a mount at {}", path));
  }
  return success();
}

Result<void> unmount_lazily(const std::string& path) {
  if (::umount2(path.c_str(), kMntDetach) != 0)
    return Error::from_errno(errno, fmt::format("unmount {}", path));
  return success();
}

Result<void> enter_private_mount_namespace() {
  if (::unshare(CLONE_NEWNS) != 0) return Error::from_errno(errno, "make a mount namespace");
  // Slave, not private: what the host mounts later (a data disk) is seen here too.
  if (::mount("none", "/", nullptr, kMsRec | kMsSlave, nullptr) != 0) {
    return Error::from_errno(errno, "cut mounts off from the host");
  }
  return success();
}

}  // namespace atl::sys
