// SPDX-License-Identifier: Apache-2.0
#include "guest/metrics.h"

#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/text.h"
#include "base/units.h"
#include "guest/json.h"

namespace atl::guest {
namespace {

// Content of a control file, read again from its start.
std::string read_counter(int fd) {
  if (fd < 0) return {};
  std::array<char, 8192> text;
  ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

std::optional<std::uint64_t> line_value(std::string_view text, std::string_view key) {
  for (std::string_view line : split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return parse_number<std::uint64_t>(line.substr(key.size() + 1));
  }
  return std::nullopt;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

struct Memory {
  std::uint64_t total, used, cache;
};

Memory read_memory(const model::GuestBoot& boot) {
  struct sysinfo machine = {};
  ::sysinfo(&machine);
  Memory memory{static_cast<std::uint64_t>(machine.totalram) * machine.mem_unit,
                static_cast<std::uint64_t>(machine.totalram - machine.freeram) * machine.mem_unit,
                static_cast<std::uint64_t>(machine.bufferram) * machine.mem_unit};
  auto usage = parse_number<std::uint64_t>(first_line(read_counter(boot.memory_usage_fd)));
  if (usage) {
    memory.cache = std::min(parse_memory_cache(read_counter(boot.memory_stat_fd)), *usage);
    memory.used = *usage - memory.cache;
  }
  if (boot.memory_bytes != 0) memory.total = boot.memory_bytes;
  return memory;
}

}  // namespace

std::optional<std::uint64_t> parse_cpu_usage(std::string_view text) {
  if (auto usec = line_value(text, "usage_usec")) return *usec * 1000;
  return parse_number<std::uint64_t>(first_line(text));
}

std::uint64_t parse_memory_cache(std::string_view text) {
  for (std::string_view key : {"total_cache", "cache", "file"}) {
    if (auto value = line_value(text, key)) return *value;
  }
  return 0;
}

Metrics::Metrics(const model::GuestBoot& boot)
    : boot_(boot), measured_at_(Steady::now()), measured_(cpu_usage()) {}

std::uint64_t Metrics::cpu_usage() const {
  if (auto usage = parse_cpu_usage(read_counter(boot_.cpu_usage_fd))) return *usage;
  struct timespec own = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  return static_cast<std::uint64_t>(own.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(own.tv_nsec);
}

double Metrics::cpu_percent() {
  auto now = Steady::now();
  if (now - measured_at_ < kMinInterval) return percent_;
  std::uint64_t usage = cpu_usage();
  auto elapsed = std::chrono::duration<double, std::nano>(now - measured_at_).count();
  percent_ = usage < measured_ ? 0 : static_cast<double>(usage - measured_) / elapsed * 100;
  measured_ = usage;
  measured_at_ = now;
  return percent_;
}

std::string Metrics::read() {
  Memory memory = read_memory(boot_);
  struct statvfs disk = {};
  ::statvfs("/", &disk);
  std::uint64_t disk_total = static_cast<std::uint64_t>(disk.f_blocks) * disk.f_frsize;
  std::uint64_t disk_used = static_cast<std::uint64_t>(disk.f_blocks - disk.f_bfree) * disk.f_frsize;
  std::int64_t cpus = boot_.cpu_millis != 0 ? (boot_.cpu_millis + 999) / 1000 : ::get_nprocs();
  ObjectWriter out;
  out.number("ts", ::time(nullptr))
      .number("cpu_count", cpus)
      .raw("cpu_used_pct", fmt::format("{:.2f}", cpu_percent()));
  auto bytes = [&](std::string_view name, std::uint64_t value) {
    out.number(name, static_cast<std::int64_t>(value));
  };
  bytes("mem_total", memory.total);
  bytes("mem_used", memory.used);
  bytes("mem_cache", memory.cache);
  bytes("mem_total_mib", memory.total / kMiB);
  bytes("mem_used_mib", memory.used / kMiB);
  bytes("disk_used", disk_used);
  bytes("disk_total", disk_total);
  return std::move(out).finish();
}

}  // namespace atl::guest
