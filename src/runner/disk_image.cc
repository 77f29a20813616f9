// SPDX-License-Identifier: Apache-2.0
#include "runner/disk_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/random.h"
#include "base/units.h"
#include "runner/program.h"
#include "runner/resolver.h"
#include "sys/files.h"
#include "sys/loop.h"
#include "sys/mount.h"

namespace atl::runner {
namespace {

using sys::Fd;

constexpr char kFeatures[] =
    "none,dir_index,ext_attr,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,"
    "extra_isize,uninit_bg";

// A journal takes its size from the disk, so it is a small part of it.
std::uint64_t journal_mib(std::uint64_t bytes) { return std::clamp<std::uint64_t>(bytes / 64 / kMiB, 4, 32); }

Result<void> run_mke2fs(const std::string& path, std::uint64_t bytes, Journal journal) {
  std::string blocks = fmt::format("{}k", bytes / 1024);
  std::string features = kFeatures;
  // One inode per 16 KiB bounds their number. The file is new, so its journal is zero already.
  // lazy_itable_init with no background zeroing keeps the image sparse.
  // All features are named, so that the host's mke2fs.conf has no say.
  std::vector<std::string> words = {
      "mke2fs", "-q", "-F", "-T",    "default", "-E",  "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
      "-m",     "0",  "-i", "16384", "-I",      "256", "-b",
      "4096"};
  if (journal == Journal::kYes) {
    features += ",has_journal";
    words.insert(words.end(), {"-J", fmt::format("size={}", journal_mib(bytes))});
  }
  words.insert(words.end(), {"-O", features, path, blocks});
  TRY(int status, run_program({"/usr/sbin/mke2fs", "/sbin/mke2fs"}, words));
  if (status != 0)
    return make_error(Code::kInternal, "mke2fs of {} failed with exit status {}", path, status);
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

}  // namespace

Result<void> make_template_image(const std::string& path, std::uint64_t bytes, Journal journal) {
  std::string temporary = path + ".tmp";
  {
    TRY(Fd file, sys::open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
      return Error::from_errno(errno, "size a disk");
  }
  TRY_VOID(run_mke2fs(temporary, bytes, journal));
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

// Opens a file of the sandbox's /etc, new and empty. Made now: the first file of a fresh file system costs up
// to a millisecond (bitmaps are read).
Result<Fd> open_etc(int root, const std::string& name, mode_t mode) {
  return sys::open_beneath(root, "upper/etc/" + name, O_WRONLY | O_CREAT | O_EXCL, mode);
}

// KERNEL: a mount of ext4 without a journal takes the mark "valid" away from the superblock, and the unmount
// gives it back (fs/ext4/super.c, ext4_setup_super, ext4_put_super). Superblock at 1024: s_magic at 56,
// s_state at 58, both little-endian (Documentation/filesystems/ext4/super.rst).
Result<void> require_clean(const std::string& path) {
  constexpr off_t kMagicAt = 1024 + 56;
  constexpr std::uint8_t kMagic[] = {0x53, 0xef};
  constexpr unsigned kValid = 1, kHasErrors = 2;
  std::uint8_t bytes[4] = {};
  TRY(Fd image, sys::open_file(path, O_RDONLY));
  if (::pread(image.get(), bytes, sizeof bytes, kMagicAt) != sizeof bytes)
    return make_error(Code::kCorrupt, "disk {} is cut off", path).with_word("disk_torn");
  bool whole = bytes[0] == kMagic[0] && bytes[1] == kMagic[1] && (bytes[2] & (kValid | kHasErrors)) == kValid;
  if (whole) return success();
  return make_error(Code::kCorrupt, "disk {} was not closed to the end, so its content cannot be trusted",
                    path)
      .with_word("disk_torn")
      .with_hint("the machine went down while it was in use; kill the sandbox");
}

Result<Disk> open_disk(const std::string& path) {
  Disk disk;
  TRY(disk.mount, mount_image(path));
  TRY_VOID(warm_up(disk.mount.get()));
  int root = disk.mount.get();
  TRY(disk.hostname, open_etc(root, "hostname", 0644));
  TRY(disk.hosts, open_etc(root, "hosts", 0644));
  TRY(disk.machine_id, open_etc(root, "machine-id", 0444));
  return disk;
}

// The directories on which a start mounts, in place of whatever else the sandbox has made of their names.
Result<void> restore_skeleton(int root) {
  for (const Entry& entry : kSkeleton) {
    if (::unlinkat(root, entry.path, 0) != 0 && errno != ENOENT && errno != EISDIR && errno != EPERM)
      return Error::from_errno(errno, fmt::format("remove {} from a disk", entry.path));
    if (::mkdirat(root, entry.path, entry.mode) == 0 && ::fchmodat(root, entry.path, entry.mode, 0) != 0)
      return Error::from_errno(errno, fmt::format("make {} on a disk", entry.path));
  }
  return success();
}

// Takes the place of what the sandbox had there. Nothing when that is a directory: then it has no use for the
// file.
Result<Fd> replace_etc(int root, const std::string& name, mode_t mode) {
  TRY(Fd etc, sys::open_beneath(root, "upper/etc", O_RDONLY | O_DIRECTORY));
  if (::unlinkat(etc.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    if (errno == EISDIR) return Fd();
    return Error::from_errno(errno, fmt::format("remove /etc/{} from a disk", name));
  }
  return open_etc(root, name, mode);
}

Result<Disk> reopen_disk(const std::string& path) {
  Disk disk;
  TRY(disk.mount, mount_image(path));
  int root = disk.mount.get();
  TRY_VOID(restore_skeleton(root));
  TRY(disk.hostname, replace_etc(root, "hostname", 0644));
  TRY(disk.hosts, replace_etc(root, "hosts", 0644));
  TRY(disk.machine_id, replace_etc(root, "machine-id", 0444));
  return disk;
}

Result<Disk> continue_disk(const std::string& path) {
  Disk disk;
  TRY(disk.mount, mount_image(path));
  TRY_VOID(restore_skeleton(disk.mount.get()));
  return disk;
}

Result<void> give_identity(Disk& disk, const std::string& sandbox) {
  std::string hosts = fmt::format("127.0.0.1\tlocalhost\n127.0.1.1\t{}\n", sandbox);
  std::string machine = random_hex(16) + "\n";  // machine-id(5)
  if (disk.hostname) TRY_VOID(sys::write_all(disk.hostname.get(), sandbox + "\n"));
  if (disk.hosts) TRY_VOID(sys::write_all(disk.hosts.get(), hosts));
  if (disk.machine_id) TRY_VOID(sys::write_all(disk.machine_id.get(), machine));
  // KERNEL: a mount with writers cannot become idmapped (mount_setattr(2), EBUSY).
  disk.hostname.reset();
  disk.hosts.reset();
  disk.machine_id.reset();
  return success();
}

}  // namespace atl::runner
