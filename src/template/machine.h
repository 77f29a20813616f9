// SPDX-License-Identifier: Apache-2.0
//
// The machine image of the microvm tier: QEMU with the libraries and firmware that it needs, a kernel of the
// distribution, and an initramfs with our first program. One file, <data>/machine/<model::kMachineImage>,
// with a manifest beside it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace atl::templates {

// Where its parts are. A tree is a folder that looks like "/": that of the host, or an unpacked package.
struct MachineParts {
  std::string kernel_tree = "/";  // boot/vmlinuz-*, lib/modules/* (or usr/lib/modules)
  std::string qemu_tree = "/";    // usr/bin/qemu-system-x86_64, usr/share/qemu, usr/share/seabios
  std::string first_program;      // atoll-vminit
  std::string monitor_program;    // atoll-qmp
};

// What the image is made of.
struct MachineManifest {
  std::string kernel;  // "6.1.0-57-cloud-amd64"
  std::string qemu;    // "QEMU emulator version 10.0.2 ..."
  std::string sha256;  // of the image, hex
  std::uint64_t size_bytes = 0;
};

// Makes the image and puts it in the place of an older one; a runner uses it from its next start on. All work
// is done in a jail without rights. Needs root, cpio and mkfs.erofs. Blocks, about a second.
Result<MachineManifest> make_machine(const std::string& data_dir, const MachineParts& parts);

// The JSON text of manifest.json.
std::string format_machine_manifest(const MachineManifest& manifest);

}  // namespace atl::templates
