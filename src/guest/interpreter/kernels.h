// SPDX-License-Identifier: Apache-2.0
//
// The kernel programs of src/guest/interpreter/kernels, which this program carries, so that a template needs
// one file of ours and never one of another version.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::guest::interpreter {

struct KernelFile {
  std::string_view name;
  std::string_view text;
};
std::span<const KernelFile> kernel_files();

// Writes them all into `directory`, which is made. Blocks.
Result<void> unpack_kernels(const std::string& directory);

}  // namespace atl::guest::interpreter
