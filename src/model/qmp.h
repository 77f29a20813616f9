// SPDX-License-Identifier: Apache-2.0
//
// What QEMU says on its monitor: one JSON object per line (docs/interop/qmp-spec of QEMU). Hostile bytes: a
// guest may have taken QEMU over. Read only by atoll-qmp, which has no rights.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl::model {

struct QmpLine {
  enum class Kind { kGreeting, kReturn, kError, kEvent };
  Kind kind = Kind::kEvent;
  std::string status;  // of a return: how far a migration is; escapes are left as they are
  std::string reason;  // of an error: "desc"; of a return: "error-desc"
};

// nullopt when it is not one object with exactly one of the keys QMP, return, error and event.
std::optional<QmpLine> parse_qmp(std::string_view line);

inline constexpr std::size_t kMaxQmpLine = 64 * 1024;

// Where QEMU has put the guest's memory into a file of the capability mapped-ram, and where the bits that
// tell which pages of it are there.
struct MappedRam {
  unsigned long long bitmap_offset = 0, bitmap_bytes = 0;
  unsigned long long pages_offset = 0, pages_bytes = 0;
};
// `head`: the beginning of the file. `block`: the id of the memory backend. nullopt when it is not there.
std::optional<MappedRam> find_mapped_ram(std::string_view head, std::string_view block);

}  // namespace atl::model
