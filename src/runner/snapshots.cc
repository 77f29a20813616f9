// SPDX-License-Identifier: Apache-2.0
#include "runner/snapshots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/clock.h"
#include "base/fault.h"
#include "sys/files.h"
#include "sys/seqpacket.h"

namespace atl::runner {
namespace {

using sys::Fd;

constexpr char kImage[] = "disk.img";
constexpr char kManifest[] = "manifest";
constexpr char kMemory[] = "memory";

Error refused(const std::string& id, std::string_view why) {
  return make_error(Code::kConflict, "snapshot {} cannot be used: {}", id, why)
      .with_word("snapshot_corrupt")
      .with_hint("delete it and take another; nothing was started from it");
}

Result<void> sync_file(int file, std::string_view what) {
  if (::fsync(file) != 0) {
    int error = errno;
    Error failed = Error::from_errno(error, fmt::format("sync {}", what));
    return error == ENOSPC || error == EDQUOT
               ? std::move(failed).with_code(Code::kNoSpace).with_word("disk_full")
               : std::move(failed);
  }
  return success();
}

Result<void> sync_folder(const std::string& path) {
  TRY(Fd folder, sys::open_file(path, O_RDONLY | O_DIRECTORY));
  return sync_file(folder.get(), path);
}

Digest::Value digest_of(const SnapshotManifest& manifest) {
  Digest digest;
  digest.add(sys::bytes_of(manifest).first(offsetof(SnapshotManifest, manifest)));
  return digest.finish();
}

}  // namespace

Result<void> SnapshotStore::sweep() {
  TRY(std::vector<std::string> names, sys::list_directory(directory_));
  for (const std::string& name : names) {
    if (!name.starts_with('.')) continue;
    TRY_VOID(remove_folder(directory_ + "/" + name));
    FAULT("runner.sweep.after_snapshot");
  }
  return success();
}

Result<void> SnapshotStore::remove_folder(const std::string& path) const {
  TRY_VOID(remove_memory(path + "/" + kMemory));
  for (const char* name : {kImage, kManifest}) {
    if (::unlink((path + "/" + name).c_str()) != 0 && errno != ENOENT)
      return Error::from_errno(errno, fmt::format("remove {}/{}", path, name));
  }
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT)
    return Error::from_errno(errno, fmt::format("remove {}", path));
  return success();
}

Result<SnapshotStore::Draft> SnapshotStore::begin(const std::string& id) {
  if (::access(path(id).c_str(), F_OK) == 0)
    return make_error(Code::kExists, "snapshot {} is there already", id);
  if (::mkdir(draft_path(id).c_str(), 0700) != 0) {
    if (errno == EEXIST) return make_error(Code::kConflict, "snapshot {} is being made", id);
    return Error::from_errno(errno, fmt::format("mkdir {}", draft_path(id)));
  }
  Result<Fd> image = sys::open_file(draft_path(id) + "/" + kImage, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (image.ok()) return Draft(*this, id, std::move(*image));
  static_cast<void>(remove_folder(draft_path(id)));
  return std::move(image).error();
}

SnapshotStore::Draft::Draft(Draft&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      id_(std::move(other.id_)),
      image_(std::move(other.image_)) {}

SnapshotStore::Draft::~Draft() {
  if (store_ != nullptr) static_cast<void>(store_->remove_folder(store_->draft_path(id_)));
}

std::string SnapshotStore::Draft::path(const char* file) const {
  return store_->draft_path(id_) + "/" + file;
}

Result<std::string> SnapshotStore::Draft::memory() const {
  TRY_VOID(sys::ensure_directory(path(kMemory), 0700));
  return path(kMemory);
}

Result<void> SnapshotStore::Draft::finish(SnapshotManifest& manifest, Repair repair) {
  if (repair == Repair::kYes) TRY_VOID(settle_image(path(kImage)));
  manifest.snapshot.set(id_);
  struct stat info{};
  if (::fstat(image_.get(), &info) != 0) return Error::from_errno(errno, "ask for the size of a disk");
  manifest.disk_bytes = static_cast<std::uint64_t>(info.st_size);
  manifest.created_ms = system_clock().now().ms;
  TRY(manifest.content, digest_image(image_.get()));
  TRY_VOID(sync_file(image_.get(), path(kImage)));
  TRY(manifest.stored_bytes, stored_bytes(image_.get()));
  if (manifest.memory != 0) {
    TRY(std::uint64_t memory, memory_bytes(path(kMemory)));
    manifest.stored_bytes += memory;
  }
  manifest.manifest = digest_of(manifest);
  TRY_VOID(write_manifest(manifest));
  FAULT("runner.snapshot.after_manifest");
  std::string target = store_->path(id_);
  if (::rename(store_->draft_path(id_).c_str(), target.c_str()) != 0)
    return Error::from_errno(errno, fmt::format("rename to {}", target));
  FAULT("runner.snapshot.after_rename");
  SnapshotStore& store = *std::exchange(store_, nullptr);
  TRY_VOID(sync_folder(store.directory_));
  store.remember(id_, image_.get());
  return success();
}

Result<void> SnapshotStore::Draft::write_manifest(const SnapshotManifest& manifest) const {
  TRY(Fd file, sys::open_file(path(kManifest), O_WRONLY | O_CREAT | O_EXCL, 0600));
  std::string_view bytes(reinterpret_cast<const char*>(&manifest), sizeof manifest);
  Result<void> written = sys::write_all(file.get(), bytes);
  if (!written.ok() && written.error().sys_errno() == ENOSPC)
    return std::move(written).error().with_code(Code::kNoSpace).with_word("disk_full");
  TRY_VOID(std::move(written));
  TRY_VOID(sync_file(file.get(), path(kManifest)));
  return sync_folder(store_->draft_path(id_));
}

Result<SnapshotManifest> SnapshotStore::read_manifest(const std::string& id) const {
  Result<std::string> bytes = sys::read_file(path(id) + "/" + kManifest);
  if (!bytes.ok() && bytes.error().sys_errno() == ENOENT && ::access(path(id).c_str(), F_OK) != 0) {
    return make_error(Code::kNotFound, "there is no snapshot {}", id).with_word("snapshot_not_found");
  }
  if (!bytes.ok()) return refused(id, bytes.error().message());
  SnapshotManifest manifest;
  if (bytes->size() < 8) return refused(id, "its manifest is cut off");
  std::memcpy(&manifest, bytes->data(), 8);
  if (manifest.magic != kSnapshotMagic) return refused(id, "its manifest is not one of Atoll");
  if (manifest.version != kSnapshotVersion)
    return refused(id, fmt::format("its manifest is of version {}, this runner reads {}", manifest.version,
                                   kSnapshotVersion));
  if (bytes->size() != sizeof manifest) return refused(id, "its manifest has not the right size");
  std::memcpy(&manifest, bytes->data(), sizeof manifest);
  if (manifest.manifest != digest_of(manifest)) return refused(id, "its manifest is damaged");
  if (manifest.snapshot.str() != id)
    return refused(id, fmt::format("it is a copy of {}", manifest.snapshot.str()));
  return manifest;
}

Result<SnapshotStore::Opened> SnapshotStore::open(const std::string& id) {
  Opened opened;
  TRY(opened.manifest, read_manifest(id));
  Result<Fd> image = sys::open_file(path(id) + "/" + kImage, O_RDONLY | O_NOFOLLOW);
  if (!image.ok()) return refused(id, image.error().message());
  opened.image = std::move(*image);
  struct stat info{};
  if (::fstat(opened.image.get(), &info) != 0) return Error::from_errno(errno, "ask for the size of a disk");
  if (static_cast<std::uint64_t>(info.st_size) != opened.manifest.disk_bytes)
    return refused(id, "its disk image has not the right size");
  if (verified(id, opened.image.get())) return opened;
  TRY(Digest::Value content, digest_image(opened.image.get()));
  if (content != opened.manifest.content) return refused(id, "its disk image is damaged");
  remember(id, opened.image.get());
  return opened;
}

Result<SnapshotStore::Stamp> SnapshotStore::stamp_of(int image) {
  struct stat info{};
  if (::fstat(image, &info) != 0) return Error::from_errno(errno, "ask for the state of a disk");
  return Stamp{static_cast<std::int64_t>(info.st_ino), info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
               info.st_ctim.tv_sec, info.st_ctim.tv_nsec};
}

void SnapshotStore::remember(const std::string& id, int image) {
  Result<Stamp> stamp = stamp_of(image);
  std::lock_guard lock(mutex_);
  if (stamp.ok()) verified_[id] = *stamp;
}

bool SnapshotStore::verified(const std::string& id, int image) {
  Result<Stamp> stamp = stamp_of(image);
  std::lock_guard lock(mutex_);
  auto found = verified_.find(id);
  return stamp.ok() && found != verified_.end() && found->second == *stamp;
}

Result<void> SnapshotStore::drop(const std::string& id) {
  {
    std::lock_guard lock(mutex_);
    verified_.erase(id);
  }
  // One that is being made loses its folder, and so does not come to be.
  std::string gone = directory_ + "/.gone-" + id;
  for (const std::string& from : {path(id), draft_path(id)}) {
    if (::rename(from.c_str(), gone.c_str()) != 0 && errno != ENOENT)
      return Error::from_errno(errno, fmt::format("rename {}", from));
  }
  FAULT("runner.snapshot.drop.after_rename");
  TRY_VOID(sync_folder(directory_));
  return remove_folder(gone);
}

Result<std::vector<SnapshotStore::Listed>> SnapshotStore::list() const {
  std::vector<Listed> out;
  TRY(std::vector<std::string> names, sys::list_directory(directory_));
  for (const std::string& name : names) {
    if (!model::valid_snapshot_id(name)) continue;
    Result<SnapshotManifest> manifest = read_manifest(name);
    if (!manifest.ok() && manifest.error().code() == Code::kNotFound) continue;  // dropped meanwhile
    out.push_back({name, manifest.ok() ? manifest->stored_bytes : 0});
  }
  return out;
}

}  // namespace atl::runner
