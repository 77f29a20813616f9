// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/output.h"
#include "apps/cli/registry.h"

namespace atl::cli {

void register_version(Commands& commands) {
  commands.add(nullptr, "version", "print the version of this command",
               "  atoll version\n  atoll status   # versions of what runs",
               [](const Globals& globals) -> Result<int> {
                 if (globals.json)
                   print_json(json::object({{"version", ATOLL_VERSION}}));
                 else
                   write_out("atoll " ATOLL_VERSION "\n");
                 return kExitOk;
               });
}

}  // namespace atl::cli
