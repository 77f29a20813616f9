// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "sys/features/probes.h"
#include "sys/files.h"

namespace atl::sys::probe {

int pressure() { return number_of(read_file("/proc/pressure/memory")); }

// A virtual machine with one processor; whether it runs a guest, only a guest shows.
int kvm() {
  auto device = open_file("/dev/kvm", O_RDWR);
  if (!device.ok()) return number_of(device);
  if (::ioctl(device->get(), KVM_GET_API_VERSION, 0) != KVM_API_VERSION) return EPROTO;
  Fd machine(::ioctl(device->get(), KVM_CREATE_VM, 0));
  if (!machine) return errno;
  Fd processor(::ioctl(machine.get(), KVM_CREATE_VCPU, 0));
  return processor ? 0 : errno;
}

}  // namespace atl::sys::probe
