// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command.h"

namespace atl::cli {

void register_all(Commands&) {}

}  // namespace atl::cli
