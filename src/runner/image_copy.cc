// SPDX-License-Identifier: Apache-2.0
#include "runner/image_copy.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/units.h"
#include "runner/program.h"
#include "sys/files.h"

namespace atl::runner {
namespace {

using sys::Fd;

constexpr off_t kCopyStep = 16 << 20;     // between two looks at the bounds
constexpr std::size_t kBuffer = 1 << 20;  // of a copy between file systems
constexpr std::size_t kBlock = 1 << 16;   // of the digest
// Left free on the host, where sandboxes' own disks need room too: a twentieth, at most this.
constexpr std::uint64_t kMaxReserve = kGiB;

Error no_space(std::string_view what) {
  return make_error(Code::kNoSpace, "the host's disk has no room for {}", what)
      .with_word("disk_full")
      .with_hint("remove snapshots that nobody needs (atoll snapshot list, rm), or make room on the host");
}

Error copy_error(int number) {
  return number == ENOSPC || number == EDQUOT ? no_space("a copy of a disk")
                                              : Error::from_errno(number, "copy a disk");
}

Result<void> check_bounds(const CopyBounds& bounds) {
  if (bounds.abandon != nullptr && *bounds.abandon) {
    return make_error(Code::kUnavailable, "the sandbox is being stopped");
  }
  if (Steady::now() < bounds.until) return success();
  return make_error(Code::kDeadline,
                    "the disk could not be copied within the time that its sandbox may stand still")
      .with_word("snapshot_too_slow")
      .with_hint("keep the data directory on a file system with reflinks (xfs, btrfs), or on a faster disk");
}

// One step through this process; as many bytes as copy_file_range(2) would say.
ssize_t copy_by_hand(int from, int to, off_t at, std::size_t size) {
  std::vector<std::byte> buffer(std::min(size, kBuffer));
  ssize_t got = ::pread(from, buffer.data(), buffer.size(), at);
  if (got <= 0) return got;
  for (ssize_t done = 0; done < got;) {
    ssize_t n = ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done), at + done);
    if (n < 0 && errno != EINTR) return n;
    if (n > 0) done += n;
  }
  return got;
}

// KERNEL: copy_file_range(2) copies only within one file system (EXDEV), and not on all (EOPNOTSUPP).
ssize_t copy_some(int from, int to, off_t at, std::size_t size) {
  off_t in = at, out = at;
  ssize_t n = ::copy_file_range(from, &in, to, &out, size, 0);
  if (n >= 0 || (errno != EXDEV && errno != EOPNOTSUPP)) return n;
  return copy_by_hand(from, to, at, size);
}

Result<void> copy_range(int from, int to, off_t start, off_t end, const CopyBounds& bounds) {
  for (off_t at = start; at < end;) {
    TRY_VOID(check_bounds(bounds));
    ssize_t n = copy_some(from, to, at, static_cast<std::size_t>(std::min(end - at, kCopyStep)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return copy_error(n < 0 ? errno : EIO);
    at += n;
  }
  return success();
}

// Calls `take(start, end)` for each run of data, in order.
template <class Take>
Result<void> for_each_run(int file, Take take) {
  for (off_t at = 0;;) {
    off_t data = ::lseek(file, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return success();  // only a hole is left
    if (data < 0) return Error::from_errno(errno, "find data in a disk");
    off_t hole = ::lseek(file, data, SEEK_HOLE);
    if (hole < 0) return Error::from_errno(errno, "find a hole in a disk");
    TRY_VOID(take(data, hole));
    at = hole;
  }
}

// KERNEL: a loop device whose backing file finds no room fails writes of the sandbox with EIO, so a copy does
// not take the last of it.
Result<void> check_room(int source, int target) {
  TRY(std::uint64_t needed, stored_bytes(source));
  struct statvfs host{};
  if (::fstatvfs(target, &host) != 0) return Error::from_errno(errno, "ask for free space");
  std::uint64_t unit = host.f_frsize;
  std::uint64_t reserve = std::min(host.f_blocks * unit / 20, kMaxReserve);
  if (host.f_bavail * unit < needed + reserve)
    return no_space(fmt::format("another {} MiB", needed / kMiB + 1));
  return success();
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

Result<void> copy_sparse(int source, int target, const CopyBounds& bounds) {
  if (::ioctl(target, FICLONE, source) == 0) return success();
  if (bounds.keep_reserve) TRY_VOID(check_room(source, target));
  struct stat info{};
  if (::fstat(source, &info) != 0 || ::ftruncate(target, info.st_size) != 0) {
    return Error::from_errno(errno, "size a copy of a disk");
  }
  return for_each_run(source,
                      [&](off_t start, off_t end) { return copy_range(source, target, start, end, bounds); });
}

Result<void> copy_sparse_file(const std::string& from, const std::string& to) {
  TRY(Fd source, sys::open_file(from, O_RDONLY));
  TRY(Fd target, sys::open_file(to, O_RDWR | O_CREAT | O_EXCL, 0600));
  Result<void> copied = copy_sparse(source.get(), target.get());
  if (!copied.ok()) ::unlink(to.c_str());
  return copied;
}

Result<Digest::Value> digest_image(int image) {
  Digest digest;
  std::vector<std::byte> block(kBlock);
  std::uint64_t next = 0;  // block; runs of data may begin and end within one
  auto add_block = [&](std::uint64_t index) -> Result<void> {
    std::size_t filled = 0;
    while (filled < kBlock) {
      ssize_t n =
          ::pread(image, block.data() + filled, kBlock - filled, static_cast<off_t>(index * kBlock + filled));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error::from_errno(errno, "read a disk");
      if (n == 0) break;
      filled += static_cast<std::size_t>(n);
    }
    std::span<const std::byte> bytes = std::span(block).first(filled);
    if (all_zero(bytes)) return success();
    digest.add(std::as_bytes(std::span(&index, 1)));
    digest.add(bytes);
    return success();
  };
  TRY_VOID(for_each_run(image, [&](off_t start, off_t end) -> Result<void> {
    std::uint64_t first = std::max(next, static_cast<std::uint64_t>(start) / kBlock);
    std::uint64_t past = (static_cast<std::uint64_t>(end) + kBlock - 1) / kBlock;
    for (std::uint64_t index = first; index < past; ++index) TRY_VOID(add_block(index));
    next = std::max(next, past);
    return success();
  }));
  struct stat info{};
  if (::fstat(image, &info) != 0) return Error::from_errno(errno, "ask for the size of a disk");
  digest.add(std::as_bytes(std::span(&info.st_size, 1)));
  return digest.finish();
}

Result<std::uint64_t> stored_bytes(int image) {
  struct stat info{};
  if (::fstat(image, &info) != 0) return Error::from_errno(errno, "ask for the size of a disk");
  return static_cast<std::uint64_t>(info.st_blocks) * 512;  // stat(2): units of 512
}

Result<void> settle_image(const std::string& path) {
  // Exit status 1: something was put in order (e2fsck(8)).
  TRY(int status, run_program({"/usr/sbin/e2fsck", "/sbin/e2fsck"}, {"e2fsck", "-f", "-p", path}));
  if (status == 0 || status == 1) return success();
  return make_error(Code::kCorrupt, "the copy of the disk is not a whole file system (e2fsck: {})", status)
      .with_word("snapshot_corrupt")
      .with_hint("take the snapshot again");
}

}  // namespace atl::runner
