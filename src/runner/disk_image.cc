// SPDX-License-Identifier: Apache-2.0
#include "runner/disk_image.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runner/resolver.h"
#include "sys/files.h"
#include "sys/loop.h"
#include "sys/mount.h"

namespace atl::runner {
namespace {

using sys::Fd;

Result<void> run_mke2fs(const std::string& path, std::uint64_t bytes) {
  std::string blocks = fmt::format("{}k", bytes / 1024);
  // No journal: a disk does not outlive a crash of the host. One inode per 16 KiB bounds their number.
  // lazy_itable_init with no background zeroing keeps the image sparse.
  // All features are named, so that the host's mke2fs.conf has no say.
  const char* arguments[] = {
      "mke2fs",
      "-q",
      "-F",
      "-T",
      "default",
      "-O",
      "none,dir_index,ext_attr,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,"
      "dir_nlink,extra_isize,uninit_bg",
      "-E",
      "lazy_itable_init=1,nodiscard",
      "-m",
      "0",
      "-i",
      "16384",
      "-I",
      "256",
      "-b",
      "4096",
      path.c_str(),
      blocks.c_str(),
      nullptr};
  const char* environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MKE2FS_CONFIG=/dev/null", nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  int error = ENOENT;
  for (const char* program : {"/usr/sbin/mke2fs", "/sbin/mke2fs"}) {
    if (error == 0) break;
    error = ::posix_spawn(&pid, program, &actions, nullptr, const_cast<char**>(arguments),
                          const_cast<char**>(environment));
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Error::from_errno(error, "start mke2fs").with_hint("install e2fsprogs");
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Error::from_errno(errno, "wait for mke2fs");
  }
  if (status != 0)
    return make_error(Code::kInternal, "mke2fs of {} failed with wait status {}", path, status);
  return success();
}

struct Entry {
  const char* path;
  mode_t mode;
};
// Made in the upper layer, so that they are there and are directories whatever the image holds under these
// names.
constexpr Entry kSkeleton[] = {{"work", 0755},       {"upper", 0755},     {"upper/proc", 0555},
                               {"upper/sys", 0555},  {"upper/dev", 0755}, {"upper/run", 0755},
                               {"upper/tmp", 01777}, {"upper/etc", 0755}};

Result<void> fill_skeleton(int root) {
  for (const Entry& entry : kSkeleton) {
    if (::mkdirat(root, entry.path, entry.mode) != 0 || ::fchmodat(root, entry.path, entry.mode, 0) != 0) {
      return Error::from_errno(errno, fmt::format("make {} on a disk", entry.path));
    }
  }
  TRY(Fd resolv, sys::open_at(root, "upper/etc/resolv.conf", O_WRONLY | O_CREAT | O_EXCL, 0644));
  return sys::write_all(resolv.get(), resolver_configuration());
}

Result<void> copy_range(int from, int to, off_t start, off_t end) {
  off_t in = start, out = start;
  while (in < end) {
    ssize_t n = ::copy_file_range(from, &in, to, &out, static_cast<std::size_t>(end - in), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error::from_errno(n < 0 ? errno : EIO, "copy a disk");
  }
  return success();
}

}  // namespace

Result<void> make_template_image(const std::string& path, std::uint64_t bytes) {
  std::string temporary = path + ".tmp";
  {
    TRY(Fd file, sys::open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
      return Error::from_errno(errno, "size a disk");
  }
  TRY_VOID(run_mke2fs(temporary, bytes));
  {
    TRY(Fd mount, mount_image(temporary));
    TRY_VOID(fill_skeleton(mount.get()));
    // What was written must be in the image, not in the page cache of the device, before anyone copies the
    // file.
    TRY(Fd root, sys::open_at(mount.get(), ".", O_RDONLY | O_DIRECTORY));
    if (::syncfs(root.get()) != 0) return Error::from_errno(errno, "write out a disk");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return Error::from_errno(errno, fmt::format("rename to {}", path));
  return success();
}

Result<void> copy_sparse(const std::string& from, const std::string& to) {
  TRY(Fd source, sys::open_file(from, O_RDONLY));
  TRY(Fd target, sys::open_file(to, O_RDWR | O_CREAT | O_EXCL, 0600));
  if (::ioctl(target.get(), FICLONE, source.get()) == 0) return success();
  struct stat info{};
  if (::fstat(source.get(), &info) != 0 || ::ftruncate(target.get(), info.st_size) != 0) {
    return Error::from_errno(errno, fmt::format("size {}", to));
  }
  for (off_t at = 0;;) {
    off_t data = ::lseek(source.get(), at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return success();  // only a hole is left
    if (data < 0) return Error::from_errno(errno, fmt::format("find data in {}", from));
    off_t hole = ::lseek(source.get(), data, SEEK_HOLE);
    if (hole < 0) return Error::from_errno(errno, fmt::format("find a hole in {}", from));
    TRY_VOID(copy_range(source.get(), target.get(), data, hole));
    at = hole;
  }
}

Result<Fd> mount_image(const std::string& path) {
  TRY(Fd image, sys::open_file(path, O_RDWR));
  TRY(sys::LoopDevice loop, sys::attach_loop(image.get(), sys::LoopMode::kReadWrite));
  // noinit_itable: no thread of the kernel fills the inode tables of a sparse image.
  return sys::mount_new("ext4", {{"source", loop.path}, {"noinit_itable", ""}}, sys::kNoSuid | sys::kNoDev);
}

// What an overlay does first in its working directory, done once: later it finds the file system's tables in
// memory.
Result<void> warm_up(int root) {
  if (::mkdirat(root, "work/warm", 0700) != 0 || ::unlinkat(root, "work/warm", AT_REMOVEDIR) != 0) {
    return Error::from_errno(errno, "use a disk");
  }
  TRY(Fd nameless, sys::open_at(root, "work", O_TMPFILE | O_WRONLY, 0600));
  return success();
}

Result<Disk> open_disk(const std::string& path) {
  Disk disk;
  TRY(disk.mount, mount_image(path));
  TRY_VOID(warm_up(disk.mount.get()));
  // Made now: the first file of a fresh file system costs up to a millisecond (bitmaps are read).
  for (auto [file, name] :
       {std::pair(&disk.hostname, "upper/etc/hostname"), std::pair(&disk.hosts, "upper/etc/hosts")}) {
    TRY(*file, sys::open_beneath(disk.mount.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0644));
  }
  return disk;
}

}  // namespace atl::runner
