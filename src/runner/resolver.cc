// SPDX-License-Identifier: Apache-2.0
#include "runner/resolver.h"

#include <fmt/format.h>

#include "base/text.h"
#include "model/sandbox.h"
#include "runner/special_ranges.h"
#include "sys/files.h"

namespace atl::runner {

std::string resolver_configuration(std::string_view host_configuration) {
  constexpr int kMaxServers = 3;  // MAXNS of resolv.conf(5)
  std::string out;
  int count = 0;
  for (std::string_view line : split(host_configuration, '\n')) {
    line = trim(line);
    if (!line.starts_with("nameserver")) continue;
    std::optional<model::Cidr> address = model::parse_cidr(trim(line.substr(10)));
    if (!address || address->prefix != 32 || is_special(address->address) || count == kMaxServers) continue;
    out += fmt::format("nameserver {}.{}.{}.{}\n", address->address[0], address->address[1],
                       address->address[2], address->address[3]);
    ++count;
  }
  if (count == 0) out = "nameserver 1.1.1.1\nnameserver 8.8.8.8\n";
  return out + "options timeout:2 attempts:2\n";
}

std::string resolver_configuration() {
  return resolver_configuration(sys::read_file("/etc/resolv.conf").value_or(""));
}

}  // namespace atl::runner
