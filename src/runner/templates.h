// SPDX-License-Identifier: Apache-2.0
//
// Open template builds: `<directory>/<build>/root.erofs`, each mounted once, below `stage` in the runner's
// own mount namespace, where nobody else sees it and from where it goes away with the runner.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::runner {

class TemplateCache {
 public:
  TemplateCache(std::string directory, std::string stage);

  // Mounts the build unless it is mounted already. kNotFound when there is no such build.
  Result<void> prepare(const std::string& build);
  // A detached copy, whose owners appear as `userns` maps them.
  Result<sys::Fd> clone(const std::string& build, int userns);
  // Running sandboxes keep theirs.
  void forget(const std::string& build);

 private:
  struct Build {
    std::mutex mutex;
    bool mounted = false;
  };
  std::shared_ptr<Build> find(const std::string& build);
  Result<void> mount(const std::string& build, Build& entry) const;  // its mutex is held
  std::string mount_point(const std::string& build) const { return stage_ + "/" + build; }

  const std::string directory_;
  const std::string stage_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Build>> builds_;
};

// The form that control uses: a lower-case UUID. Nothing else may become part of a path.
bool valid_build(const std::string& build);

}  // namespace atl::runner
