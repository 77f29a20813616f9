// SPDX-License-Identifier: Apache-2.0
//
// The files in which runsc keeps the memory of a sandbox, and where PID 1 of the sandbox and the runner find
// them and each other. All paths are in the private root of PID 1, which no process of the guest can reach.
#pragma once

#include <cstddef>
#include <iterator>

#include "runner/launch.h"

namespace atl::runner::gvisor {

inline constexpr const char* kMemoryFiles[] = {"checkpoint.img", "pages_meta.img", "pages.img"};
inline constexpr std::size_t kMemoryFileCount = std::size(kMemoryFiles);
constexpr Passed memory_fd(std::size_t file) {
  return static_cast<Passed>(static_cast<std::size_t>(Passed::kMemory0) + file);
}

// Written by runsc: on the sandbox's disk, beside upper and work, so that it has the bounds of the disk.
inline constexpr char kWrittenMemory[] = "/disk/memory";
// Read by runsc: the files of the host, one mount each.
inline constexpr char kReadMemory[] = "/memory";
// There while the guest's kernel runs no process, from before it was asked until after it was asked to go on.
inline constexpr char kStillMark[] = "/still";
// A fifo: there from when a sandbox that goes on from files stands still until it has gone on. One byte lets
// it.
inline constexpr char kGoFifo[] = "/go";

// Removes what runsc has written; none is fine. Returns the step that failed, with errno, or nullptr.
// Allocates nothing.
const char* remove_written();

}  // namespace atl::runner::gvisor
