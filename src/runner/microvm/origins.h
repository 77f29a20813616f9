// SPDX-License-Identifier: Apache-2.0
//
// Which stored memory each running machine began as: `<directory>/<sandbox>/`, other names of the files that
// its QEMU maps. So these are there for as long as it runs, whatever becomes of the folder that they came
// from, and a later runner finds them.
#pragma once

#include <set>
#include <string>

#include "base/result.h"

namespace atl::runner::microvm {

class Origins {
 public:
  explicit Origins(std::string directory) : directory_(std::move(directory)) {}
  // `memory` is about to be mapped by the sandbox's QEMU; `layout` tells where its pages lie.
  Result<void> keep(const std::string& sandbox, const std::string& memory, const std::string& layout) const;
  std::string memory(const std::string& sandbox) const { return folder(sandbox) + "/memory"; }
  // With its layout, in a file of that name.
  std::string folder(const std::string& sandbox) const { return directory_ + "/" + sandbox; }
  bool knows(const std::string& sandbox) const;
  void drop(const std::string& sandbox) const;
  // Those of all others go.
  void sweep(const std::set<std::string>& kept) const;

 private:
  const std::string directory_;
};

}  // namespace atl::runner::microvm
