// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/kernels.h"

#include "sys/files.h"

namespace atl::guest::interpreter {

Result<void> unpack_kernels(const std::string& directory) {
  TRY_VOID(sys::ensure_directory(directory, 0755));
  for (const KernelFile& file : kernel_files())
    TRY_VOID(sys::replace_file(fmt::format("{}/{}", directory, file.name), file.text, 0644));
  return success();
}

}  // namespace atl::guest::interpreter
