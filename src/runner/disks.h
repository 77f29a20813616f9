// SPDX-License-Identifier: Apache-2.0
//
// Writable layers of sandboxes: one sparse ext4 image each, so that space and inodes are bounded on any file
// system of the host, with a pool of ready ones. `<directory>/<sandbox>.img`; ready ones are
// `ready-<number>.img`.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "sys/fd.h"

namespace atl::runner {

struct Disk {
  sys::Fd mount;  // detached; upper/ and work/ in it; owners unshifted (0 = root of the sandbox)
  // Of upper/etc, empty, open for writing: only the lease knows the name. None of a disk that
  // goes on under its name.
  sys::Fd hostname, hosts, machine_id;
};

// Whether the file system of a disk is whole again after its kernel was cut off. Disks that the host mounts
// have none: they do not outlive a crash of the host.
enum class Journal : std::uint8_t { kNo, kYes };

class DiskPool {
 public:
  explicit DiskPool(std::string directory);
  ~DiskPool();

  // Removes every image but those of `keep` (sandbox ids), finds out that disks can be made, starts the
  // background thread.
  Result<void> start(const std::set<std::string>& keep, std::uint64_t bytes, std::uint32_t ready);
  void set_ready(std::uint64_t bytes, std::uint32_t count);

  // A disk of this size under the sandbox's name; made on the spot when none is ready.
  Result<Disk> lease(const std::string& sandbox, std::uint64_t bytes);
  // One with a journal, not mounted and without names, for a guest that mounts it itself.
  Result<Disk> lease_closed(const std::string& sandbox, std::uint64_t bytes);
  // The same with the content of `image`, which has this size.
  Result<Disk> lease_copy(const std::string& sandbox, int image);
  // The same, not mounted.
  Result<Disk> lease_closed_copy(const std::string& sandbox, int image);
  // Waits until the kernel has let go of the image of a sandbox that has ended, and writes it out.
  Result<void> settle(const std::string& sandbox, Millis timeout);
  // The disk of a sandbox that was settled. Refused when it was not: it may be torn.
  Result<Disk> reopen(const std::string& sandbox);
  // That this host does not have it mounted.
  Result<void> require_unused(const std::string& sandbox) const;
  // The sandbox's image; `access`: O_RDONLY or O_RDWR.
  Result<sys::Fd> open_image(const std::string& sandbox, int access) const;
  // Removes the sandbox's image; its blocks come back when the kernel drops the mount. A missing one is fine.
  void remove(const std::string& sandbox);

 private:
  std::string image_of(const std::string& sandbox) const;
  struct Ready {
    std::string path;
    Disk disk;
  };
  void run();
  Result<Ready> make(std::uint64_t bytes);
  Result<Ready> copy(int image);
  Result<Disk> name(Ready ready, const std::string& sandbox);
  std::uint64_t next_number();
  Result<std::string> template_for(std::uint64_t bytes, Journal journal);

  const std::string directory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::mutex template_mutex_;
  std::set<std::string> templates_;  // paths of those that this process has made
  std::deque<Ready> ready_;
  std::uint64_t bytes_ = 0;
  std::uint32_t wanted_ = 0;
  std::uint64_t next_ = 0;
  Steady::time_point last_lease_{};
  bool stop_ = false;
  std::thread thread_;
};

// Sizes are rounded up to this, so that few templates serve all.
inline constexpr std::uint64_t kDiskGrain = 64ull << 20;
constexpr std::uint64_t disk_size(std::uint64_t bytes) {
  return (bytes + kDiskGrain - 1) / kDiskGrain * kDiskGrain;
}

}  // namespace atl::runner
