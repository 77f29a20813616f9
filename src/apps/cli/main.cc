// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command.h"

int main(int argc, char** argv) { return atl::cli::run_command(argc, argv); }
