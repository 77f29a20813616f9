// SPDX-License-Identifier: Apache-2.0
#include "sys/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace atl::sys {

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<Fd> Fd::duplicate() const {
  int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return Error::from_errno(errno, "duplicate a descriptor");
  return Fd(copy);
}

}  // namespace atl::sys
