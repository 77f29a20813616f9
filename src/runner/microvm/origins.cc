// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/origins.h"

#include <unistd.h>

#include <cerrno>

#include "runner/stored_memory.h"
#include "sys/files.h"

namespace atl::runner::microvm {

Result<void> Origins::keep(const std::string& sandbox, const std::string& memory,
                           const std::string& layout) const {
  std::string to = folder(sandbox);
  TRY_VOID(remove_memory(to));
  TRY_VOID(sys::ensure_directory(to, 0700));
  for (const auto& [from, name] : {std::pair(layout, to + "/layout"), std::pair(memory, to + "/memory")}) {
    if (::link(from.c_str(), name.c_str()) != 0) {
      int error = errno;
      drop(sandbox);
      return Error::from_errno(error, fmt::format("link {}", name));
    }
  }
  return success();
}

bool Origins::knows(const std::string& sandbox) const { return ::access(memory(sandbox).c_str(), F_OK) == 0; }

void Origins::drop(const std::string& sandbox) const { static_cast<void>(remove_memory(folder(sandbox))); }

void Origins::sweep(const std::set<std::string>& kept) const {
  for (const std::string& name : sys::list_directory(directory_).value_or({})) {
    if (!kept.contains(name)) drop(name);
  }
}

}  // namespace atl::runner::microvm
