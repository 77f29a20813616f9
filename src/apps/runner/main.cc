// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/log.h"
#include "runner/options.h"

int main(int argc, char** argv) {
  using atl::runner::Options;
  atl::log::set_program("atoll-runner");
  atl::Result<Options> options = atl::runner::parse_options(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "atoll-runner: %s\n", options.error().message().c_str());
    return 2;
  }
  switch (options->action) {
    case Options::Action::kHelp: std::fputs(atl::runner::options_help().c_str(), stdout); return 0;
    case Options::Action::kVersion: std::puts("atoll-runner 0.1.0"); return 0;
    case Options::Action::kRun: break;
  }
  atl::Result<void> done = atl::runner::run(*options);
  if (done.ok()) return 0;
  atl::log::error("runner ends", {{"error", done.error().message()}, {"hint", done.error().hint()}});
  return 1;
}
