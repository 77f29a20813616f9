// SPDX-License-Identifier: Apache-2.0
#include "guest/connections.h"

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "base/text.h"
#include "guest/posix.h"

namespace atl::guest {
namespace {

constexpr std::size_t kMaxTable = 4 << 20;
// include/net/tcp_states.h
constexpr unsigned kTimeWait = 6, kClose = 7, kListen = 10;

struct Row {
  std::string_view remote;  // address:port, in hexadecimal digits
  unsigned state = 0;
};

std::optional<unsigned> hex_number(std::string_view text) {
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "sl local remote st ..."; nothing for the headline.
std::optional<Row> read_row(std::string_view line) {
  std::array<std::string_view, 4> fields;
  for (std::string_view& field : fields) {
    while (line.starts_with(' ')) line.remove_prefix(1);
    field = line.substr(0, line.find(' '));
    line.remove_prefix(field.size());
  }
  std::optional<unsigned> state = hex_number(fields[3]);
  if (!fields[0].ends_with(':') || !state) return std::nullopt;
  return Row{fields[2], *state};
}

// KERNEL: each 32 bits of an address are written as a number of this machine, so the first byte of an IPv4
// address comes last (net/ipv4/tcp_ipv4.c, get_tcp4_sock).
bool leads_outside(std::string_view end) {
  std::string_view address = end.substr(0, end.find(':'));
  constexpr std::string_view kMapped = "0000000000000000FFFF0000";
  if (address == "00000000000000000000000001000000") return false;
  if (address.size() == 32 && address.starts_with(kMapped)) address.remove_prefix(kMapped.size());
  std::optional<unsigned> value = address.size() == 8 ? hex_number(address) : std::nullopt;
  if (!value) return true;
  unsigned first = *value & 0xff, second = *value >> 8 & 0xff;
  constexpr unsigned kLoopback = 127, kHost = 100, kHostSecond = 64;
  return first != kLoopback && !(first == kHost && (second & 0xc0) == kHostSecond);
}

}  // namespace

std::size_t outside_connections(std::string_view table) {
  std::size_t count = 0;
  for (std::string_view line : split(table, '\n')) {
    std::optional<Row> row = read_row(line);
    if (!row || row->state == kListen || row->state == kTimeWait || row->state == kClose) continue;
    if (leads_outside(row->remote)) ++count;
  }
  return count;
}

std::size_t outside_connections() {
  std::size_t count = 0;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    auto table = read_small_file(path, kMaxTable);
    count += table.ok() ? outside_connections(*table) : 1;
  }
  return count;
}

}  // namespace atl::guest
