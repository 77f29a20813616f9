// SPDX-License-Identifier: Apache-2.0
//
// atoll-vminit: the first program of a guest of the microvm tier; it is /init of the machine image's
// initramfs.
#include <sys/reboot.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "guest/machine/init.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version")
    return std::puts("atoll-vminit " ATOLL_VERSION) < 0;
  if (::getpid() != 1) {
    std::fputs("atoll-vminit: starts a guest of the microvm tier; of no use elsewhere\n", stderr);
    return 2;
  }
  atl::Result<void> ended = atl::guest::run_machine();
  if (!ended.ok()) std::printf("atoll-vminit: %s\n", ended.error().message().c_str());
  std::fflush(stdout);
  ::sync();
  ::reboot(RB_AUTOBOOT);  // QEMU runs with -no-reboot
  return 1;
}
