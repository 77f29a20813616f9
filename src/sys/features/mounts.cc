// SPDX-License-Identifier: Apache-2.0
//
// Mounts and file systems, in a mount namespace of the probe's own.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "sys/features/probes.h"
#include "sys/files.h"
#include "sys/loop.h"
#include "sys/mount.h"

namespace atl::sys::probe {
namespace {

constexpr off_t kImageBytes = 1 << 20;

// An empty file system in memory at /tmp, where nobody else sees it.
Result<Fd> fresh_tmp() {
  TRY_VOID(enter_private_mount_namespace());
  TRY(Fd tmpfs, mount_new("tmpfs", {}, 0));
  TRY_VOID(attach_mount(tmpfs.get(), "/tmp"));
  return tmpfs;
}

Result<void> overlay_with(std::vector<MountOption> options) {
  for (const char* path : {"/tmp/l", "/tmp/u", "/tmp/w"}) TRY_VOID(ensure_directory(path, 0755));
  options.insert(options.end(), {{"lowerdir", "/tmp/l"}, {"upperdir", "/tmp/u"}, {"workdir", "/tmp/w"}});
  TRY(Fd mounted, mount_new("overlay", options, 0));
  return success();
}

// KERNEL: opening a file system type loads its module where there is one (fsopen(2)).
int file_system(const char* type) {
  Fd context(static_cast<int>(::syscall(SYS_fsopen, type, 1 /* FSOPEN_CLOEXEC */)));
  return context ? 0 : errno;
}

Result<Fd> memory_image(const void* bytes, std::size_t size, off_t at) {
  Fd image(::memfd_create("probe", MFD_CLOEXEC));
  if (!image) return Error::from_errno(errno, "make a memory file");
  if (::ftruncate(image.get(), kImageBytes) != 0) return Error::from_errno(errno, "size a memory file");
  if (size > 0 && ::pwrite(image.get(), bytes, size, at) != static_cast<ssize_t>(size))
    return Error::from_errno(errno, "write a memory file");
  return image;
}

// The smallest erofs there is: a superblock, and a root folder without entries (Linux, fs/erofs/erofs_fs.h).
Result<Fd> empty_erofs() {
  constexpr std::size_t kSuper = 1024, kInode = 4096;
  static std::array<unsigned char, 8192> bytes{};
  auto put = [](std::size_t at, std::uint32_t value, std::size_t size) {
    std::memcpy(&bytes[at], &value, size);
  };
  put(kSuper, 0xE0F5E1E2, 4);  // magic
  put(kSuper + 12, 12, 1);     // blkszbits
  put(kSuper + 14, 0, 2);      // root_nid: the first one of the meta area
  put(kSuper + 16, 1, 4);      // inos
  put(kSuper + 36, 2, 4);      // blocks
  put(kSuper + 40, 1, 4);      // meta_blkaddr
  put(kInode, 0, 2);           // i_format: compact, plain
  put(kInode + 4, S_IFDIR | 0755, 2);
  put(kInode + 6, 2, 2);  // i_nlink
  return memory_image(bytes.data(), bytes.size(), 0);
}

// A user namespace with a mapping; it lives as long as the descriptor.
Result<Fd> mapped_namespace() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno(errno, "make a pipe");
  pid_t holder = ::fork();
  if (holder < 0) return Error::from_errno(errno, "fork");
  if (holder == 0) {
    int failed = ::unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
    if (::write(ends[1], &failed, sizeof failed) == sizeof failed) ::pause();
    ::_exit(0);
  }
  int failed = EIO;
  ssize_t got = ::read(ends[0], &failed, sizeof failed);
  auto open = [holder]() -> Result<Fd> {
    std::string base = fmt::format("/proc/{}", holder);
    TRY_VOID(write_file(base + "/uid_map", "0 1879048192 65536"));
    TRY_VOID(write_file(base + "/gid_map", "0 1879048192 65536"));
    return open_file(base + "/ns/user", O_RDONLY);
  };
  Result<Fd> space = got == sizeof failed && failed == 0
                         ? open()
                         : Result<Fd>(Error::from_errno(failed, "make a user namespace"));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  return space;
}

Result<void> map_self(uid_t uid, gid_t gid) {
  TRY_VOID(write_file("/proc/self/setgroups", "deny"));  // else only who has CAP_SETGID may map groups
  TRY_VOID(write_file("/proc/self/uid_map", fmt::format("0 {} 1", uid)));
  return write_file("/proc/self/gid_map", fmt::format("0 {} 1", gid));
}

Result<void> map_erofs() {
  TRY_VOID(enter_private_mount_namespace());
  TRY(Fd space, mapped_namespace());
  TRY(Fd image, empty_erofs());
  TRY(LoopDevice device, attach_loop(image.get(), LoopMode::kReadOnly));
  TRY(Fd mounted, mount_new("erofs", {{"source", device.path}, {"ro", ""}}, kReadOnly));
  return idmap_mount(mounted.get(), space.get());
}

}  // namespace

int mount_api() { return number_of(fresh_tmp()); }

int pivot_root() {
  auto tmpfs = fresh_tmp();
  if (!tmpfs.ok()) return number_of(tmpfs);
  if (::chdir("/tmp") != 0) return errno;
  return outcome(::syscall(SYS_pivot_root, ".", "."));
}

int mount_setattr() {
  auto tmpfs = fresh_tmp();
  return tmpfs.ok() ? number_of(restrict_mount(tmpfs->get(), kNoSuid)) : number_of(tmpfs);
}

int overlay() {
  auto tmpfs = fresh_tmp();
  return tmpfs.ok() ? number_of(overlay_with({})) : number_of(tmpfs);
}

// As root of a user namespace only, as sandboxes mount it.
int overlay_userxattr() {
  uid_t uid = ::geteuid();
  gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) return errno;
  if (auto mapped = map_self(uid, gid); !mapped.ok()) return number_of(mapped);
  auto tmpfs = fresh_tmp();
  return tmpfs.ok() ? number_of(overlay_with({{"userxattr", ""}})) : number_of(tmpfs);
}

int erofs() { return file_system("erofs"); }
int ext4() { return file_system("ext4"); }

int loop_devices() {
  auto image = memory_image(nullptr, 0, 0);
  return image.ok() ? number_of(attach_loop(image->get(), LoopMode::kReadOnly)) : number_of(image);
}

int idmapped_mounts() { return number_of(map_erofs()); }

}  // namespace atl::sys::probe
