// SPDX-License-Identifier: Apache-2.0
#include "runner/disks.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/fault.h"
#include "base/log.h"
#include "runner/disk_image.h"
#include "runner/image_copy.h"
#include "sys/files.h"
#include "sys/loop.h"

namespace atl::runner {
namespace {

constexpr Millis kRetryAfterError{1000};
constexpr Millis kQuiet{15};  // as for slots: while enough are left, no disk is made beside a start
constexpr std::string_view kSuffix = ".img";
constexpr useconds_t kSettleLook = 2'000;

}  // namespace

DiskPool::DiskPool(std::string directory) : directory_(std::move(directory)) {}

DiskPool::~DiskPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const Ready& ready : ready_) ::unlink(ready.path.c_str());
}

Result<void> DiskPool::start(const std::set<std::string>& keep, std::uint64_t bytes, std::uint32_t ready) {
  TRY(std::vector<std::string> names, sys::list_directory(directory_));
  for (const std::string& name : names) {
    bool image = name.ends_with(kSuffix);
    if (image && keep.contains(name.substr(0, name.size() - kSuffix.size()))) continue;
    if (::unlink((directory_ + "/" + name).c_str()) != 0 && errno != ENOENT) {
      return Error::from_errno(errno, fmt::format("remove {}/{}", directory_, name));
    }
    FAULT("runner.sweep.after_disk");
  }
  bytes_ = disk_size(bytes);
  wanted_ = ready;
  // Found by doing: without one disk nothing can start.
  TRY(Ready first, make(bytes_));
  ready_.push_back(std::move(first));
  thread_ = std::thread([this] { run(); });
  return success();
}

void DiskPool::set_ready(std::uint64_t bytes, std::uint32_t count) {
  std::lock_guard lock(mutex_);
  wanted_ = count;
  if (disk_size(bytes) != bytes_) {
    bytes_ = disk_size(bytes);
    for (const Ready& ready : ready_) ::unlink(ready.path.c_str());
    ready_.clear();
  }
  changed_.notify_all();
}

Result<std::string> DiskPool::template_for(std::uint64_t bytes, Journal journal) {
  // Also keeps two threads from making the same one.
  std::lock_guard lock(template_mutex_);
  std::string kind = journal == Journal::kYes ? "journal-" : "";
  std::string path = fmt::format("{}/template-{}{}", directory_, kind, bytes);
  if (templates_.contains(path)) return path;
  TRY_VOID(make_template_image(path, bytes, journal));
  templates_.insert(path);
  return path;
}

std::uint64_t DiskPool::next_number() {
  std::lock_guard lock(mutex_);
  return next_++;
}

Result<DiskPool::Ready> DiskPool::make(std::uint64_t bytes) {
  TRY(std::string origin, template_for(bytes, Journal::kNo));
  Ready ready;
  ready.path = fmt::format("{}/ready-{}{}", directory_, next_number(), kSuffix);
  Result<void> copied = copy_sparse_file(origin, ready.path);
  Result<Disk> disk = copied.ok() ? open_disk(ready.path) : Result<Disk>(std::move(copied).error());
  if (!disk.ok()) {
    ::unlink(ready.path.c_str());
    return std::move(disk).error();
  }
  ready.disk = std::move(*disk);
  return ready;
}

void DiskPool::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (ready_.size() >= wanted_) {
      changed_.wait(lock, [this] { return stop_ || ready_.size() < wanted_; });
      continue;
    }
    auto quiet_for = std::chrono::duration_cast<Millis>(Steady::now() - last_lease_);
    if (ready_.size() > wanted_ / 2 && quiet_for < kQuiet) {
      changed_.wait_for(lock, kQuiet - quiet_for);
      continue;
    }
    std::uint64_t bytes = bytes_;
    lock.unlock();
    Result<Ready> made = make(bytes);
    FAULT("runner.disk.after_make");
    lock.lock();
    if (!made.ok()) {
      log::warn("disk not made", {{"error", made.error().message()}});
      changed_.wait_for(lock, kRetryAfterError, [this] { return stop_; });
    } else if (bytes == bytes_ && !stop_) {
      ready_.push_back(std::move(*made));
    } else {
      ::unlink(made->path.c_str());
    }
  }
}

Result<Disk> DiskPool::lease(const std::string& sandbox, std::uint64_t bytes) {
  Ready ready;
  {
    std::lock_guard lock(mutex_);
    if (disk_size(bytes) == bytes_ && !ready_.empty()) {
      ready = std::move(ready_.front());
      ready_.pop_front();
      last_lease_ = Steady::now();
      changed_.notify_all();
    }
  }
  if (!ready.disk.mount) {
    TRY(ready, make(disk_size(bytes)));
  }
  return name(std::move(ready), sandbox);
}

Result<Disk> DiskPool::lease_closed(const std::string& sandbox, std::uint64_t bytes) {
  TRY(std::string origin, template_for(disk_size(bytes), Journal::kYes));
  TRY(sys::Fd image, sys::open_file(origin, O_RDONLY));
  return lease_closed_copy(sandbox, image.get());
}

Result<Disk> DiskPool::name(Ready ready, const std::string& sandbox) {
  std::string path = image_of(sandbox);
  if (::rename(ready.path.c_str(), path.c_str()) != 0) {
    int error = errno;
    ::unlink(ready.path.c_str());
    return Error::from_errno(error, fmt::format("rename to {}", path));
  }
  return std::move(ready.disk);
}

Result<DiskPool::Ready> DiskPool::copy(int image) {
  Ready ready;
  ready.path = fmt::format("{}/copy-{}{}", directory_, next_number(), kSuffix);
  TRY(sys::Fd target, sys::open_file(ready.path, O_RDWR | O_CREAT | O_EXCL, 0600));
  Result<void> copied = copy_sparse(image, target.get(), {.keep_reserve = true});
  FAULT("runner.disk.after_copy");
  if (copied.ok()) return ready;
  ::unlink(ready.path.c_str());
  return std::move(copied).error();
}

Result<Disk> DiskPool::lease_copy(const std::string& sandbox, int image) {
  TRY(Ready ready, copy(image));
  Result<Disk> disk = reopen_disk(ready.path);
  if (!disk.ok()) {
    ::unlink(ready.path.c_str());
    return std::move(disk).error();
  }
  ready.disk = std::move(*disk);
  return name(std::move(ready), sandbox);
}

Result<Disk> DiskPool::lease_closed_copy(const std::string& sandbox, int image) {
  TRY(Ready ready, copy(image));
  return name(std::move(ready), sandbox);
}

std::string DiskPool::image_of(const std::string& sandbox) const {
  return fmt::format("{}/{}{}", directory_, sandbox, kSuffix);
}

// KERNEL: the mount goes with the last process of the sandbox, and the loop device detaches a moment after it
// (loop(4), autoclear); until then the image may change.
Result<void> DiskPool::settle(const std::string& sandbox, Millis timeout) {
  std::string path = image_of(sandbox);
  Steady::time_point until = Steady::now() + timeout;
  while (sys::loop_attached(path)) {
    if (Steady::now() >= until)
      return make_error(Code::kDeadline, "disk {} is still in use after {} ms", path, timeout.count());
    ::usleep(kSettleLook);
  }
  return sys::sync_path(path);
}

Result<void> DiskPool::require_unused(const std::string& sandbox) const {
  std::string path = image_of(sandbox);
  if (sys::loop_attached(path)) return make_error(Code::kConflict, "disk {} is in use", path);
  return success();
}

Result<Disk> DiskPool::reopen(const std::string& sandbox) {
  TRY_VOID(require_unused(sandbox));
  TRY_VOID(require_clean(image_of(sandbox)));
  return continue_disk(image_of(sandbox));
}

Result<sys::Fd> DiskPool::open_image(const std::string& sandbox, int access) const {
  return sys::open_file(image_of(sandbox), access | O_NOFOLLOW);
}

void DiskPool::remove(const std::string& sandbox) { ::unlink(image_of(sandbox).c_str()); }

}  // namespace atl::runner
