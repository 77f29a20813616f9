// SPDX-License-Identifier: Apache-2.0
//
// Stored copies of disks, and memory: `<directory>/<snapshot>/{disk.img,manifest,memory/}`. One that is there
// under its name is whole: it is written under a name that starts with a dot, synced, and then renamed
// (docs/decisions/0081-snapshots.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/runner_protocol.h"
#include "runner/image_copy.h"
#include "runner/stored_memory.h"
#include "sys/fd.h"

namespace atl::runner {

inline constexpr std::uint32_t kSnapshotMagic = 0x504e5341;  // "ASNP"
inline constexpr std::uint32_t kSnapshotVersion = 1;

// What a stored copy is of, and what it must hold to be used.
struct SnapshotManifest {
  std::uint32_t magic = kSnapshotMagic;
  std::uint32_t version = kSnapshotVersion;
  model::wire::Text<24> snapshot{};
  model::wire::Text<24> sandbox{};  // that it is a copy of
  std::uint64_t generation = 0;     // of that one
  model::wire::Text<40> build{};    // of the template that lies below the disk
  std::uint8_t tier = 0;
  std::uint8_t memory = 0;  // 1: there is one (stored_memory.h)
  std::uint8_t pad[6]{};
  std::uint64_t disk_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::int64_t created_ms = 0;
  Digest::Value content{};   // of the disk image
  Digest::Value manifest{};  // of everything above
};

// The store. Use from any thread.
class SnapshotStore {
 public:
  explicit SnapshotStore(std::string directory) : directory_(std::move(directory)) {}

  // Removes what interrupted calls have left. Once, before the others.
  Result<void> sweep();

  // A copy in the making. Gone without a trace when it is destroyed before finish().
  class Draft {
   public:
    Draft(SnapshotStore& store, std::string id, sys::Fd image)
        : store_(&store), id_(std::move(id)), image_(std::move(image)) {}
    Draft(Draft&& other) noexcept;
    Draft& operator=(Draft&&) = delete;
    ~Draft();
    int image() const { return image_.get(); }  // empty, to be filled by copy_sparse()
    // An empty folder for memory; made by the first call.
    Result<std::string> memory() const;
    // Syncs the copy, and gives it its name. Completes `manifest`. `repair`: puts the file system in order,
    // which takes a program of root that reads it.
    enum class Repair : bool { kNo, kYes };
    Result<void> finish(SnapshotManifest& manifest, Repair repair);

   private:
    std::string path(const char* file) const;
    Result<void> write_manifest(const SnapshotManifest& manifest) const;
    SnapshotStore* store_;
    std::string id_;
    sys::Fd image_;
  };
  // kExists when there is one of this id already.
  Result<Draft> begin(const std::string& id);

  // A copy that was found to be whole.
  struct Opened {
    sys::Fd image;
    SnapshotManifest manifest;
  };
  // kNotFound when there is none, kConflict when it is not what it was when it was made. Reads the whole
  // image, unless this process has done so and nothing has touched it since.
  Result<Opened> open(const std::string& id);
  // Where its memory is, if it has one.
  std::string memory_of(const std::string& id) const { return path(id) + "/memory"; }
  // Removes it; one that is not there is fine. A start that reads it goes on.
  Result<void> drop(const std::string& id);

  // One copy as a list shows it.
  struct Listed {
    std::string id;
    std::uint64_t stored_bytes = 0;  // 0 when its manifest cannot be read
  };
  Result<std::vector<Listed>> list() const;

 private:
  // What tells whether a file was touched.
  using Stamp = std::array<std::int64_t, 5>;
  static Result<Stamp> stamp_of(int image);
  std::string path(const std::string& id) const { return directory_ + "/" + id; }
  std::string draft_path(const std::string& id) const { return directory_ + "/.new-" + id; }
  Result<SnapshotManifest> read_manifest(const std::string& id) const;
  void remember(const std::string& id, int image);
  bool verified(const std::string& id, int image);
  Result<void> remove_folder(const std::string& path) const;

  const std::string directory_;
  std::mutex mutex_;
  std::map<std::string, Stamp> verified_;  // as many as there are snapshots
};

}  // namespace atl::runner
