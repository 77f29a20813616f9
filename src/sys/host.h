// SPDX-License-Identifier: Apache-2.0
//
// HostProbe: how much of the machine is left. Its files are opened once, so that it works after the process
// has locked itself out of /proc (Landlock).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

struct HostFacts {
  std::uint64_t memory_total = 0;  // bytes (proc(5), /proc/meminfo: MemTotal)
  std::uint64_t memory_free = 0;   // bytes (MemAvailable)
  std::uint64_t disk_total = 0;    // bytes, of the file system of the data directory
  std::uint64_t disk_free = 0;     // bytes that others than root may still use
  std::uint64_t processes_max = 0;
  std::uint64_t processes = 0;  // that exist, threads included
  unsigned memory_pressure =
      0;  // percent of the last 10 s in which everything waited for memory; 0 without PSI
};

// Open files of the kernel. Movable; read from one thread at a time.
class HostProbe {
 public:
  // Blocking. Files that a kernel lacks (pressure, Linux 4.20) are done without.
  static Result<HostProbe> open(const std::string& data_dir);
  // Some microseconds of system calls. What cannot be read is 0.
  HostFacts read() const;

 private:
  Fd meminfo_, loadavg_, pressure_, data_dir_;
  std::uint64_t processes_max_ = 0;
};

// Parsers of what the kernel prints; 0 when it is not there.
std::uint64_t meminfo_bytes(std::string_view text, std::string_view name);
std::uint64_t loadavg_processes(std::string_view text);  // the number after '/' (proc(5))
unsigned pressure_percent(std::string_view text);        // avg10 of the line `full`, rounded down

}  // namespace atl::sys
