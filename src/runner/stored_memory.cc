// SPDX-License-Identifier: Apache-2.0
#include "runner/stored_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "base/fault.h"
#include "runner/image_copy.h"
#include "sys/files.h"
#include "sys/seqpacket.h"

namespace atl::runner {
namespace {

using sys::Fd;

constexpr char kManifest[] = "manifest";

Error refused(const std::string& folder, std::string_view why) {
  return make_error(Code::kConflict, "the stored memory in {} cannot be used: {}", folder, why)
      .with_word("snapshot_corrupt")
      .with_hint("nothing was started from it; a resume without memory boots from the disk");
}

Error mismatch(const std::string& why) {
  return make_error(Code::kConflict, "the stored memory cannot go on here: {}", why)
      .with_word("snapshot_mismatch")
      .with_hint("nothing was started from it; a resume without memory boots from the disk");
}

Digest::Value digest_of(const MemoryManifest& manifest) {
  Digest digest;
  digest.add(sys::bytes_of(manifest).first(offsetof(MemoryManifest, manifest)));
  return digest.finish();
}

// Of the driver, in the order of their names.
Result<std::vector<std::string>> files_of(const std::string& folder) {
  TRY(std::vector<std::string> names, sys::list_directory(folder));
  std::erase(names, kManifest);
  std::sort(names.begin(), names.end());
  return names;
}

Result<Digest::Value> digest_file(const std::string& path) {
  TRY(Fd file, sys::open_file(path, O_RDONLY | O_NOFOLLOW));
  return digest_image(file.get());
}

Result<void> sync_files(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) TRY_VOID(sys::sync_path(folder + "/" + name));
  return success();
}

Result<MemoryManifest> read_manifest(const std::string& folder) {
  Result<std::string> bytes = sys::read_file(folder + "/" + kManifest, 2 * sizeof(MemoryManifest));
  if (!bytes.ok() && bytes.error().sys_errno() == ENOENT)
    return make_error(Code::kNotFound, "there is no stored memory in {}", folder).with_word("memory_gone");
  if (!bytes.ok()) return refused(folder, bytes.error().message());
  MemoryManifest manifest;
  if (bytes->size() != sizeof manifest) return refused(folder, "its manifest has not the right size");
  std::memcpy(&manifest, bytes->data(), sizeof manifest);
  if (manifest.magic != kMemoryMagic) return refused(folder, "its manifest is none");
  if (manifest.version != kMemoryVersion)
    return refused(folder, fmt::format("it is of version {}, this is {}", manifest.version, kMemoryVersion));
  if (manifest.manifest != digest_of(manifest)) return refused(folder, "its manifest is damaged");
  return manifest;
}

Result<void> require_match(const MemoryManifest& found, const MemoryWanted& wanted) {
  if (found.tier != wanted.tier) return mismatch("it is of another tier");
  if (!wanted.sandbox.empty() && found.sandbox.str() != wanted.sandbox)
    return mismatch(fmt::format("it is of sandbox {}", found.sandbox.str()));
  if (found.build.str() != wanted.build)
    return mismatch(fmt::format("it is of template build {}", found.build.str()));
  if (found.memory_bytes != wanted.memory_bytes || found.cpu_millis != wanted.cpu_millis ||
      found.disk_bytes != wanted.disk_bytes)
    return mismatch("it is of a sandbox with other limits");
  if (found.runtime.str() == wanted.runtime) return success();
  return mismatch(
      fmt::format("it was stored by [{}], and this host has [{}]", found.runtime.str(), wanted.runtime));
}

Result<void> rename_folder(const std::string& from, const std::string& to, const std::string& parent) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return Error::from_errno(errno, fmt::format("rename {}", from));
  return sys::sync_path(parent);
}

}  // namespace

Result<std::uint64_t> memory_bytes(const std::string& folder) {
  TRY(std::vector<std::string> names, files_of(folder));
  std::uint64_t sum = 0;
  for (const std::string& name : names) {
    if (name == kSharedMemory) continue;
    TRY(Fd file, sys::open_file(folder + "/" + name, O_RDONLY | O_NOFOLLOW));
    TRY(std::uint64_t bytes, stored_bytes(file.get()));
    sum += bytes;
  }
  return sum;
}

Result<void> link_memory(const std::string& from, const std::string& to) {
  TRY(std::vector<std::string> names, files_of(from));
  for (const std::string& name : names) {
    if (::link((from + "/" + name).c_str(), (to + "/" + name).c_str()) != 0)
      return Error::from_errno(errno, fmt::format("link {}/{}", to, name));
  }
  return success();
}

Result<void> remove_memory(const std::string& folder) {
  TRY(std::vector<std::string> names, sys::list_directory(folder));
  for (const std::string& name : names) {
    if (::unlink((folder + "/" + name).c_str()) != 0 && errno != ENOENT)
      return Error::from_errno(errno, fmt::format("remove {}/{}", folder, name));
  }
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT)
    return Error::from_errno(errno, fmt::format("remove {}", folder));
  return success();
}

Result<MemoryChecks::Stamp> MemoryChecks::stamp_of(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return Error::from_errno(errno, fmt::format("look at {}", path));
  // Not st_ctim: another link to the file changes it.
  return Stamp{static_cast<std::int64_t>(info.st_ino), info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
               info.st_size, info.st_blocks};
}

// With its manifest's: whatever was touched shows.
Result<std::map<std::string, MemoryChecks::Stamp>> MemoryChecks::stamps_of(const std::string& folder) {
  TRY(std::vector<std::string> names, sys::list_directory(folder));
  std::map<std::string, Stamp> out;
  for (const std::string& name : names) {
    TRY(out[name], stamp_of(folder + "/" + name));
  }
  return out;
}

// It never changes once it is shared, and is much larger than what stands beside it.
Result<Digest::Value> MemoryChecks::digest_shared(const std::string& path) {
  TRY(Stamp stamp, stamp_of(path));
  {
    std::lock_guard lock(mutex_);
    auto known = shared_.find(stamp);
    if (known != shared_.end()) return known->second;
  }
  TRY(Digest::Value content, digest_file(path));
  std::lock_guard lock(mutex_);
  if (shared_.size() >= kMostShared) shared_.clear();
  shared_[stamp] = content;
  return content;
}

Result<Digest::Value> MemoryChecks::digest_files(const std::string& folder) {
  TRY(std::vector<std::string> names, files_of(folder));
  Digest digest;
  for (const std::string& name : names) {
    std::string path = folder + "/" + name;
    Result<Digest::Value> content = name == kSharedMemory ? digest_shared(path) : digest_file(path);
    if (!content.ok()) return content;
    digest.add(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
    digest.add(std::as_bytes(std::span(*content)));
  }
  return digest.finish();
}

Result<void> MemoryChecks::seal(const std::string& folder, MemoryManifest& manifest) {
  TRY(std::vector<std::string> names, files_of(folder));
  // The disk is busy with what was written while the processor reads it again.
  Result<void> synced = success();
  std::thread writer([&] { synced = sync_files(folder, names); });
  Result<Digest::Value> content = digest_files(folder);
  writer.join();
  TRY_VOID(std::move(synced));
  TRY(manifest.content, std::move(content));
  manifest.manifest = digest_of(manifest);
  FAULT("runner.memory.before_manifest");
  std::string_view bytes(reinterpret_cast<const char*>(&manifest), sizeof manifest);
  TRY_VOID(sys::replace_file(folder + "/" + kManifest, bytes, 0600, sys::Durable::kYes));
  return sys::sync_path(folder);
}

Result<void> MemoryChecks::require(const std::string& folder, const MemoryWanted& wanted) {
  TRY(MemoryManifest manifest, read_manifest(folder));
  TRY_VOID(require_match(manifest, wanted));
  TRY(auto stamps, stamps_of(folder));
  {
    std::lock_guard lock(mutex_);
    auto known = known_.find(folder);
    if (known != known_.end() && known->second == stamps) return success();
  }
  Result<Digest::Value> content = digest_files(folder);
  if (!content.ok()) return refused(folder, content.error().message());
  if (*content != manifest.content) return refused(folder, "its files are damaged");
  std::lock_guard lock(mutex_);
  known_[folder] = std::move(stamps);
  return success();
}

void MemoryChecks::remember(const std::string& folder) {
  auto stamps = stamps_of(folder);
  std::lock_guard lock(mutex_);
  // As many as there are folders; those that are gone are forgotten now and then.
  std::erase_if(known_, [](const auto& entry) { return ::access(entry.first.c_str(), F_OK) != 0; });
  if (stamps.ok()) known_[folder] = std::move(*stamps);
}

Result<void> MemoryStore::sweep(const std::set<std::string>& kept) {
  TRY(std::vector<std::string> names, sys::list_directory(directory_));
  for (const std::string& name : names) {
    if (kept.contains(name)) continue;
    TRY_VOID(remove_memory(directory_ + "/" + name));
    FAULT("runner.sweep.after_memory");
  }
  return success();
}

Result<std::string> MemoryStore::begin(const std::string& sandbox) const {
  std::string folder = draft(sandbox);
  TRY_VOID(remove_memory(folder));
  TRY_VOID(sys::ensure_directory(folder, 0700));
  return folder;
}

Result<void> MemoryStore::keep(const std::string& sandbox, MemoryManifest& manifest) {
  TRY_VOID(checks_.seal(draft(sandbox), manifest));
  FAULT("runner.save.after_manifest");
  TRY_VOID(remove_memory(folder(sandbox)));
  TRY_VOID(rename_folder(draft(sandbox), folder(sandbox), directory_));
  checks_.remember(folder(sandbox));
  return success();
}

bool MemoryStore::has(const std::string& sandbox) const {
  return ::access((folder(sandbox) + "/" + kManifest).c_str(), F_OK) == 0;
}

Result<void> MemoryStore::spend(const std::string& sandbox) const {
  TRY_VOID(remove_memory(spent(sandbox)));
  return rename_folder(folder(sandbox), spent(sandbox), directory_);
}

Result<void> MemoryStore::give_back(const std::string& sandbox) const {
  return rename_folder(spent(sandbox), folder(sandbox), directory_);
}

void MemoryStore::drop(const std::string& sandbox) const {
  for (const std::string& path : {folder(sandbox), draft(sandbox), spent(sandbox)})
    static_cast<void>(remove_memory(path));
}

}  // namespace atl::runner
