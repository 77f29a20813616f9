// SPDX-License-Identifier: Apache-2.0
//
// What the runner and the guest of the microvm tier agree on: the prepared machine image, and what goes over
// the channel between the runner and the first program of the guest (src/guest/machine/).
#pragma once

#include <cstdint>

#include "model/guest_boot.h"

namespace atl::model {

// Below the data directory. The number changes with everything here, so that an image that was made for
// another version is not found, instead of misunderstood.
inline constexpr char kMachineFolder[] = "machine";
inline constexpr char kMachineImage[] = "machine-1.erofs";
// Inside the image, which is QEMU's whole root directory.
inline constexpr char kMachineQemu[] = "/usr/bin/qemu-system-x86_64";
inline constexpr char kMachineFirmware[] = "/usr/share/qemu";
inline constexpr char kMachineKernel[] = "/vmlinuz";
inline constexpr char kMachineInitrd[] = "/initrd";

// The link of a guest: the same in every one. The host's end of its cable has this address too.
inline constexpr std::uint8_t kMachineMac[6] = {0x02, 0xa7, 0x01, 0x00, 0x00, 0x15};
inline constexpr std::uint8_t kMachineGatewayMac[6] = {0x02, 0xa7, 0x01, 0x00, 0x00, 0x16};

inline constexpr std::uint32_t kMachineBootMagic = 0x4843414d;  // "MACH"

// The first message on the channel, from the runner. One byte comes back when the guest daemon listens.
struct MachineBoot {
  std::uint32_t magic;
  std::uint32_t processes;  // that may be in the guest
  std::uint64_t shm_bytes;  // of /dev/shm
  GuestBoot guest;          // its descriptors are filled in by the guest
};

}  // namespace atl::model
