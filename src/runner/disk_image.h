// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "runner/disks.h"
#include "sys/fd.h"

namespace atl::runner {

// Makes an ext4 image at `path` with the skeleton of a sandbox's writable layer in it. Starts mke2fs(8). A
// failed or interrupted one leaves nothing under `path`.
Result<void> make_template_image(const std::string& path, std::uint64_t bytes);
// Copies a sparse file: by reflink where the file system can, else its data and not its holes.
Result<void> copy_sparse(const std::string& from, const std::string& to);
// Mounts the image through a loop device; detached.
Result<sys::Fd> mount_image(const std::string& path);
// Mounts a copy of a template image and opens what a start writes to.
Result<Disk> open_disk(const std::string& path);

}  // namespace atl::runner
