// SPDX-License-Identifier: Apache-2.0
#include "runner/gvisor/memory_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace atl::runner::gvisor {

const char* remove_written() {
  int folder = ::open(kWrittenMemory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return errno == ENOENT ? nullptr : "open the folder of memory";
  const char* failed = nullptr;
  for (const char* name : kMemoryFiles) {
    if (::unlinkat(folder, name, 0) != 0 && errno != ENOENT) failed = "remove a file of memory";
  }
  ::close(folder);
  if (failed == nullptr && ::rmdir(kWrittenMemory) != 0) failed = "remove the folder of memory";
  return failed;
}

}  // namespace atl::runner::gvisor
