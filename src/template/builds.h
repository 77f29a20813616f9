// SPDX-License-Identifier: Apache-2.0
//
// Builds: the folder <data>/templates. A build appears there complete or not at all: it is made in a hidden
// work folder, synced, and renamed into place. Work folders that a killed build left are swept by the next
// one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"
#include "template/manifest.h"

namespace atl::templates {

// An image that is ours and on disk.
struct SealedImage {
  std::string sha256;  // hex
  std::uint64_t size_bytes = 0;
};
// Makes the image that a jail wrote ours, whose processes are gone; a link or a second name in its place is
// refused.
Result<SealedImage> seal_image(const std::string& path);

// One build under way. Its work folder is locked while it lives (flock(2)) and removed when it is destroyed.
class Workspace {
 public:
  Workspace(Workspace&&) noexcept = default;
  Workspace& operator=(Workspace&&) = delete;
  ~Workspace();

  const std::string& build() const { return build_; }  // the new build's UUID
  // Owned by the jail's root; holds tree/ and source/ (empty at first) and, later, root.erofs.
  const std::string& path() const { return path_; }

 private:
  friend class Builds;
  Workspace(std::string build, std::string path, sys::Fd lock)
      : build_(std::move(build)), path_(std::move(path)), lock_(std::move(lock)) {}
  std::string build_;
  std::string path_;
  sys::Fd lock_;
};

// The builds of one data directory. Holds only its path; cheap to copy.
class Builds {
 public:
  // Creates <data>/templates when it is missing, and sweeps what dead builds left behind.
  static Result<Builds> open(const std::string& data_dir);

  Result<Workspace> start() const;
  // Seals the workspace's root.erofs: measures and hashes it, writes the manifest, syncs, renames. Fills in
  // the manifest's build, size and hash. After success the build is on disk for good.
  Result<Manifest> publish(Workspace& work, Manifest manifest) const;
  // Complete builds, newest first. A folder whose manifest cannot be read is left out.
  std::vector<Manifest> list() const;
  Result<void> remove(const std::string& build) const;
  const std::string& folder() const { return folder_; }

 private:
  explicit Builds(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

}  // namespace atl::templates
