// SPDX-License-Identifier: Apache-2.0
#include "sys/host.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "sys/files.h"

namespace atl::sys {
namespace {

constexpr std::size_t kMostText = 8192;

std::string from_the_start(int fd) {
  std::string text(kMostText, '\0');
  ssize_t got = fd < 0 ? 0 : ::pread(fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

std::uint64_t leading_number(std::string_view text) {
  text = trim(text);
  auto end = std::find_if_not(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return parse_number<std::uint64_t>(std::string_view(text.begin(), end)).value_or(0);
}

}  // namespace

std::uint64_t meminfo_bytes(std::string_view text, std::string_view name) {
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':'))
      return leading_number(line.substr(name.size() + 1)) * kKiB;
  }
  return 0;
}

std::uint64_t loadavg_processes(std::string_view text) {
  std::size_t slash = text.find('/');
  return slash == std::string_view::npos ? 0 : leading_number(text.substr(slash + 1));
}

unsigned pressure_percent(std::string_view text) {
  constexpr std::string_view kField = "avg10=";
  for (std::string_view line : split(text, '\n')) {
    std::size_t at = line.find(kField);
    if (!line.starts_with("full ") || at == std::string_view::npos) continue;
    return static_cast<unsigned>(
        std::min<std::uint64_t>(leading_number(line.substr(at + kField.size())), 100));
  }
  return 0;
}

Result<HostProbe> HostProbe::open(const std::string& data_dir) {
  HostProbe probe;
  TRY(probe.meminfo_, open_file("/proc/meminfo", O_RDONLY));
  TRY(probe.loadavg_, open_file("/proc/loadavg", O_RDONLY));
  TRY(probe.data_dir_, open_file(data_dir, O_PATH | O_DIRECTORY));
  if (auto pressure = open_file("/proc/pressure/memory", O_RDONLY)) probe.pressure_ = std::move(*pressure);
  for (const char* path : {"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"}) {
    TRY(std::string text, read_file(path));
    std::uint64_t most = leading_number(text);
    probe.processes_max_ = probe.processes_max_ == 0 ? most : std::min(probe.processes_max_, most);
  }
  return probe;
}

HostFacts HostProbe::read() const {
  HostFacts facts;
  std::string memory = from_the_start(meminfo_.get());
  facts.memory_total = meminfo_bytes(memory, "MemTotal");
  facts.memory_free = meminfo_bytes(memory, "MemAvailable");
  facts.processes_max = processes_max_;
  facts.processes = loadavg_processes(from_the_start(loadavg_.get()));
  facts.memory_pressure = pressure_percent(from_the_start(pressure_.get()));
  struct statvfs disk{};
  if (::fstatvfs(data_dir_.get(), &disk) == 0) {
    facts.disk_total = disk.f_blocks * disk.f_frsize;
    facts.disk_free = disk.f_bavail * disk.f_frsize;
  }
  return facts;
}

}  // namespace atl::sys
