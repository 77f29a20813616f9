// SPDX-License-Identifier: Apache-2.0
#include "guest/own_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace atl::guest {
namespace {
constexpr int kBacklog = 128;
}

// Without SO_REUSEADDR. KERNEL: Linux lets nobody bind the port of a socket that listens; gVisor's stack does
// when both have that option, also to one of the addresses, and then a process of the workload gets the calls
// that are meant for the daemon.
Result<sys::Fd> listen_alone(std::uint16_t port) {
  sys::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Error::from_errno(errno, "make the guest daemon's socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return Error::from_errno(errno, "listen on the guest daemon's port");
  }
  return fd;
}

}  // namespace atl::guest
