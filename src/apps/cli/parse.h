// SPDX-License-Identifier: Apache-2.0
//
// Values on the command line, parsed strictly.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace atl::cli {

// "90", "90s", "5m", "2h", "1d": whole numbers, seconds without a unit. At most 30 days, never negative.
Result<std::chrono::seconds> parse_duration(std::string_view text);
// Of an idle timeout: nothing when it is not named, 0 for "off", else a duration of at least a second.
Result<std::optional<std::chrono::seconds>> parse_idle(std::string_view text);
// "512", "512k", "64M", "4G" and the same with "iB": bytes, powers of 1024.
Result<std::uint64_t> parse_size(std::string_view text);
// "KEY=VALUE"; a bare "KEY" takes its value from our own environment. Names are [A-Za-z_][A-Za-z0-9_]*.
Result<std::map<std::string, std::string>> parse_env(const std::vector<std::string>& items);
// "KEY=VALUE" for labels: any key without '='.
Result<std::map<std::string, std::string>> parse_metadata(const std::vector<std::string>& items);

std::string format_duration(std::chrono::seconds duration);          // "2h 5m", "45s"
std::string format_bytes(std::uint64_t bytes);                       // "1.5 GiB", "12 B"
std::string format_count(std::size_t count, std::string_view noun);  // "1 sandbox", "2 checks"

}  // namespace atl::cli
