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
Result<void> make_template_image(const std::string& path, std::uint64_t bytes, Journal journal);
// Mounts the image through a loop device; detached.
Result<sys::Fd> mount_image(const std::string& path);
// Refuses an image that was not unmounted to the end: without a journal what it holds cannot be trusted.
Result<void> require_clean(const std::string& path);
// Mounts a copy of a template image and opens what a start writes to.
Result<Disk> open_disk(const std::string& path);
// The same for a copy of a disk that a sandbox has used.
Result<Disk> reopen_disk(const std::string& path);
// The same for the disk of a sandbox that goes on under its name: nothing of it is renewed.
Result<Disk> continue_disk(const std::string& path);
// Writes who the sandbox is: its name, and a machine id that no other has.
Result<void> give_identity(Disk& disk, const std::string& sandbox);

}  // namespace atl::runner
