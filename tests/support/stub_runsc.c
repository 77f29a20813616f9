// SPDX-License-Identifier: Apache-2.0
//
// Stands in for a runsc that is not usable: says the version that it is built with, and fails at everything
// else, or never ends.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0)
    return puts("runsc version " STUB_VERSION "\nspec: 1.0.2-dev") < 0;
  if (strcmp(STUB_KIND, "hanging") == 0) pause();
  return 3;
}
