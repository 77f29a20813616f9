// SPDX-License-Identifier: Apache-2.0
//
// Machines that wait in files: booted once for a template's build and a shape of machine, to where nothing in
// them names a sandbox. Each start of that kind is a copy-on-write clone of one. `<directory>/<key>/`, sealed
// as other stored memory is (runner/stored_memory.h); a cache: whatever is wrong with one, it is made anew.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "runner/driver.h"
#include "runner/stored_memory.h"

namespace atl::runner::microvm {

class PreparedMachines {
 public:
  explicit PreparedMachines(std::string directory) : directory_(std::move(directory)) {}

  // Of which kind a start is.
  static std::string key_of(const StartSpec& spec);
  // The folder of a whole one; empty: there is none. Reads all of it the first time.
  std::string find(const StartSpec& spec, const std::string& runtime);
  // An empty folder to be filled, for one caller at a time; empty for all others.
  std::string begin(const std::string& key);
  // What begin() gave is there, or (`made` false) came to nothing.
  void finish(const std::string& key, const StartSpec& spec, const std::string& runtime, bool made);
  // One did not start: it goes.
  void drop(const std::string& key);
  // Those of a build.
  void forget(const std::string& build);

 private:
  static constexpr std::size_t kMost = 16;  // the eldest goes
  std::string folder(const std::string& key) const { return directory_ + "/" + key; }
  void make_room() const;
  const std::string directory_;
  MemoryChecks checks_;
  std::mutex mutex_;
  std::set<std::string> under_way_;
};

}  // namespace atl::runner::microvm
