// SPDX-License-Identifier: Apache-2.0
#include "base/fault.h"

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace atl {

void fault_point(const char* name) {
  static const char* const wanted =
      std::getenv("ATOLL_FAULT");  // read once: daemons never change their environment
  if (wanted == nullptr || std::string_view(wanted) != name) return;
  std::raise(SIGKILL);  // does not return: a signal to the own thread is delivered before the call ends
}

}  // namespace atl
