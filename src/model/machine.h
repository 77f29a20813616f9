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
inline constexpr char kMachineImage[] = "machine-3.erofs";
// Inside the image, which is QEMU's whole root directory.
inline constexpr char kMachineQemu[] = "/usr/bin/qemu-system-x86_64";
inline constexpr char kMachineMonitor[] = "/usr/bin/atoll-qmp";
inline constexpr char kMachineFirmware[] = "/usr/share/qemu";
inline constexpr char kMachineKernel[] = "/vmlinuz";
inline constexpr char kMachineInitrd[] = "/initrd";

// The link of a guest: the same in every one. The host's end of its cable has this address too.
inline constexpr std::uint8_t kMachineMac[6] = {0x02, 0xa7, 0x01, 0x00, 0x00, 0x15};
inline constexpr std::uint8_t kMachineGatewayMac[6] = {0x02, 0xa7, 0x01, 0x00, 0x00, 0x16};

// The channel carries orders from the runner and one reply for each. The first program says once, with number
// 0, that it is parked: ready for kBoot, with nothing in it that names a sandbox.
inline constexpr std::uint32_t kMachineMagic = 0x4843414d;  // "MACH"

enum class MachineWord : std::uint32_t {
  kBoot = 1,  // mount the disk, start the guest daemon; answered when that listens
  kHello,     // answered at once: whoever came back from a file is there. The names are taken at kGo
  kQuiet,     // all programs stand still and the disk is written out, until kGo; may be repeated
  kGo,        // set the clock, feed the random numbers, take the names, and only then go on; may be repeated
  kSync,      // write the disk out
};

// What the runner wants, with the time and random numbers of the moment.
struct MachineOrder {
  std::uint32_t magic;
  MachineWord word;
  std::uint64_t number;  // of this order; the reply carries it
  std::int64_t time_ms;  // since 1970
  std::uint8_t random[32];
  std::uint64_t shm_bytes;  // of /dev/shm
  std::uint32_t processes;  // that may be in the guest
  std::uint32_t names;      // 1: host name, hosts, machine id are made anew on the disk
  GuestBoot guest;          // its descriptors are filled in by the guest
};

// What came of it.
struct MachineReply {
  std::uint32_t magic;
  std::int32_t error;  // errno; 0: done
  std::uint64_t number;
};

// What atoll-qmp says to its output when it has spoken with QEMU, once.
struct MonitorReply {
  std::uint32_t magic;
  std::uint32_t done;  // 1: it is done
  // After a save: where in the file the guest's memory lies, and the bits that name pages of it.
  std::uint64_t memory_offset, memory_bytes;
  std::uint64_t bitmap_offset;
  char why[240];  // where it is not, in words
};

}  // namespace atl::model
