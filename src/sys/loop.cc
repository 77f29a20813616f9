// SPDX-License-Identifier: Apache-2.0
#include "sys/loop.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "sys/files.h"

namespace atl::sys {
namespace {

constexpr int kLoopMajor = 7;
constexpr int kAttachTries = 64;

// Hosts without a device manager do not make the node of a new device.
Result<Fd> open_device(const std::string& path, int number, int flags) {
  Result<Fd> device = open_file(path, flags);
  if (device.ok() || device.error().code() != Code::kNotFound) return device;
  if (::mknod(path.c_str(), S_IFBLK | 0600, makedev(kLoopMajor, static_cast<unsigned>(number))) != 0 &&
      errno != EEXIST) {
    return Error::from_errno(errno, fmt::format("make {}", path));
  }
  return open_file(path, flags);
}

}  // namespace

Result<LoopDevice> attach_loop(int image, LoopMode mode) {
  TRY(Fd control, open_file("/dev/loop-control", O_RDWR));
  loop_config config{};
  config.fd = static_cast<unsigned>(image);
  config.block_size = 4096;
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (mode == LoopMode::kReadOnly ? LO_FLAGS_READ_ONLY : 0);
  for (int i = 0; i < kAttachTries; ++i) {
    int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return Error::from_errno(errno, "find a free loop device");
    std::string path = fmt::format("/dev/loop{}", number);
    Result<Fd> device = open_device(path, number, mode == LoopMode::kReadOnly ? O_RDONLY : O_RDWR);
    // Between the question and the open another process may take the device, or remove it: ask again.
    if (!device.ok()) {
      if (device.error().sys_errno() == ENXIO || device.error().sys_errno() == EBUSY) continue;
      return std::move(device).error();
    }
    if (::ioctl(device->get(), LOOP_CONFIGURE, &config) == 0) return LoopDevice{std::move(*device), path};
    if (errno != EBUSY) return Error::from_errno(errno, fmt::format("attach {}", path));
  }
  return make_error(Code::kExhausted, "no free loop device after {} tries", kAttachTries)
      .with_word("host_capacity");
}

bool loop_attached(const std::string& image) {
  struct stat wanted{};
  if (::stat(image.c_str(), &wanted) != 0) return false;
  for (const std::string& name : list_directory("/sys/block").value_or({})) {
    if (!name.starts_with("loop")) continue;
    std::string backing = read_file(fmt::format("/sys/block/{}/loop/backing_file", name)).value_or("");
    while (!backing.empty() && backing.back() == '\n') backing.pop_back();
    struct stat info{};
    if (!backing.empty() && ::stat(backing.c_str(), &info) == 0 && info.st_dev == wanted.st_dev &&
        info.st_ino == wanted.st_ino) {
      return true;
    }
  }
  return false;
}

}  // namespace atl::sys
