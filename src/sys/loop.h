// SPDX-License-Identifier: Apache-2.0
//
// Loop devices: a file as a block device (loop(4)).
#pragma once

#include <string>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

struct LoopDevice {
  Fd fd;             // keeps the device attached until something mounts it
  std::string path;  // /dev/loopN
};
enum class LoopMode { kReadOnly, kReadWrite };

// Attaches `image`. The device detaches by itself when its last user (descriptor or mount) is gone, also
// after a crash.
Result<LoopDevice> attach_loop(int image, LoopMode mode);
// Whether some device still has this file behind it. Reads /sys/block.
bool loop_attached(const std::string& image);

}  // namespace atl::sys
