// SPDX-License-Identifier: Apache-2.0
//
// TreeWriter: writes entries below one directory and never outside it. Every name is opened relative to the
// root's descriptor with openat2(2) and RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, so a link made by an earlier
// entry cannot move a later one. Meant to run in a confined child (jail.h): the rules here are the inner
// wall, the jail the outer one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"
#include "template/entry.h"

namespace atl::templates {

// Delivers the next bytes of a file; an empty span at its end. The span is valid until the next call.
using DataSource = std::function<Result<std::span<const char>>()>;

// What has been written so far; `bytes` counts the contents of files.
struct TreeTotals {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

// Not thread-safe. After an error it must not be used any more.
class TreeWriter {
 public:
  // `root` is an open directory and stays the caller's; it must outlive the writer.
  TreeWriter(int root, TreeLimits limits) : root_(root), limits_(limits) {}

  // Judges and writes one entry. An error names the entry and means that the whole tree is to be thrown away.
  Result<void> add(const Entry& entry, const DataSource& data);
  // Sets the times of directories, which later entries would have changed. Call once, after the last add().
  Result<void> finish();
  const TreeTotals& totals() const { return totals_; }

 private:
  Result<void> count(const Entry& entry);
  Result<int> parent_of(const Entry& entry);
  Result<void> make_parents(const Entry& entry, const std::string& parent);
  Result<void> add_directory(const Entry& entry);
  Result<void> add_file(const Entry& entry, const DataSource& data);
  Result<void> add_symlink(const Entry& entry);
  Result<void> add_hardlink(const Entry& entry);

  int root_;
  TreeLimits limits_;
  TreeTotals totals_;
  std::string parent_path_;  // the directory that parent_ is
  sys::Fd parent_;
  std::unordered_set<std::string> implicit_;  // parents made by us, not yet named by an entry
  std::vector<std::pair<std::string, std::int64_t>> directory_times_;
};

}  // namespace atl::templates
