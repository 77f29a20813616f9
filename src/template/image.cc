// SPDX-License-Identifier: Apache-2.0
#include "template/image.h"

#include "template/jail.h"

namespace atl::templates {

Result<void> write_image(const std::string& work) {
  JailSpec jail;
  jail.work = work;
  jail.view = View::kHost;
  std::string root = kJailWork;
  // Extended attributes stay out (-x-1): "user.overlay.*" of a foreign tree would steer the overlay above it.
  std::vector<std::string> argv = {"/usr/bin/mkfs.erofs", "-zlz4",   "-x-1",
                                   "--preserve-mtime",    "--quiet", root + "/root.erofs",
                                   root + "/tree"};
  return run_program(jail, argv, {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}, [](std::string_view) {});
}

}  // namespace atl::templates
