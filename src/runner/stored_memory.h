// SPDX-License-Identifier: Apache-2.0
//
// Memory of sandboxes in files: a folder with the files of a driver and `manifest`. One whose manifest is
// there is whole: the files are synced before it is written. Of sandboxes that rest with their memory:
// `<data dir>/memory/<sandbox>`; of snapshots: `<data dir>/snapshots/<id>/memory`
// (docs/decisions/0091-memory-in-files.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "model/runner_protocol.h"

namespace atl::runner {

inline constexpr std::uint32_t kMemoryMagic = 0x4d454d41;  // "AMEM"
inline constexpr std::uint32_t kMemoryVersion = 1;

// What a stored memory is of, and what must be the same where it goes on.
struct MemoryManifest {
  std::uint32_t magic = kMemoryMagic;
  std::uint32_t version = kMemoryVersion;
  model::wire::Text<24> sandbox{};
  std::uint64_t generation = 0;
  model::wire::Text<40> build{};  // of the template that lies below its disk
  std::uint8_t tier = 0;
  std::uint8_t pad[3]{};
  std::uint32_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;   // its limit
  std::uint64_t disk_bytes = 0;     // likewise
  model::wire::Text<96> runtime{};  // Driver::runtime()
  Digest::Value content{};          // of the files, by their names
  Digest::Value manifest{};         // of everything above
};

// What has to go on, from files that are not looked at yet.
struct MemoryWanted {
  std::string sandbox;  // that it was of; empty: any
  std::string build;
  std::uint8_t tier = 0;
  std::uint32_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::string runtime;
};

// A file of this name is the same in several folders, as another name of one file; it goes with the last. Its
// bytes count for none of them.
inline constexpr char kSharedMemory[] = "shared";

// Bytes that a folder takes on its file system.
Result<std::uint64_t> memory_bytes(const std::string& folder);
// Gives the files of a whole folder a second name in `to`, an empty one. They never change, so nothing is
// copied.
Result<void> link_memory(const std::string& from, const std::string& to);
// Removes a folder of memory, whatever state it is in; one that is not there is fine.
Result<void> remove_memory(const std::string& folder);

// Which folders and files were read and found whole by this process, so that they are read only once. Use
// from any thread.
class MemoryChecks {
 public:
  // Syncs the files of `folder` and makes them one whole by a manifest; completes `manifest`.
  Result<void> seal(const std::string& folder, MemoryManifest& manifest);
  // Refuses, with the reason: kNotFound when there is none; `snapshot_corrupt` when it is not what it was;
  // `snapshot_mismatch` when it is of another template, size, tier or runtime than what it is wanted for.
  Result<void> require(const std::string& folder, const MemoryWanted& wanted);
  // `folder` was just sealed.
  void remember(const std::string& folder);

 private:
  static constexpr std::size_t kMostShared = 64;
  using Stamp = std::array<std::int64_t, 5>;
  static Result<Stamp> stamp_of(const std::string& path);
  static Result<std::map<std::string, Stamp>> stamps_of(const std::string& folder);
  Result<Digest::Value> digest_shared(const std::string& path);
  Result<Digest::Value> digest_files(const std::string& folder);
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, Stamp>> known_;
  std::map<Stamp, Digest::Value> shared_;  // of shared files
};

// The memory of those that rest, by sandbox.
class MemoryStore {
 public:
  explicit MemoryStore(std::string directory) : directory_(std::move(directory)) {}
  // Removes what interrupted calls have left, and memory of nobody. Once, before the others.
  Result<void> sweep(const std::set<std::string>& kept);
  // An empty folder to be filled; what was in it before goes.
  Result<std::string> begin(const std::string& sandbox) const;
  // Makes what begin() gave the sandbox's memory, also after a crash of the machine.
  Result<void> keep(const std::string& sandbox, MemoryManifest& manifest);
  bool has(const std::string& sandbox) const;
  std::string folder(const std::string& sandbox) const { return directory_ + "/" + sandbox; }
  MemoryChecks& checks() { return checks_; }
  // It is about to change what it was on disk, so its memory is void, also after a crash of the machine. The
  // files are there until drop().
  Result<void> spend(const std::string& sandbox) const;
  // It did not go on after all.
  Result<void> give_back(const std::string& sandbox) const;
  // Removes all that there is of it.
  void drop(const std::string& sandbox) const;

 private:
  std::string draft(const std::string& sandbox) const { return directory_ + "/.new-" + sandbox; }
  std::string spent(const std::string& sandbox) const { return directory_ + "/.spent-" + sandbox; }
  const std::string directory_;
  MemoryChecks checks_;
};

}  // namespace atl::runner
