// SPDX-License-Identifier: Apache-2.0
#include "sys/seqpacket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace atl::sys {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return make_error(Code::kInvalid, "socket path {} is longer than {} bytes", path,
                      sizeof address.sun_path - 1)
        .with_hint("choose a shorter run directory");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> new_socket() {
  int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error::from_errno(errno, "make a unix socket");
  return Fd(fd);
}

}  // namespace

Result<std::pair<Fd, Fd>> seqpacket_pair() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return Error::from_errno(errno, "make a socket pair");
  }
  return std::pair<Fd, Fd>(Fd(pair[0]), Fd(pair[1]));
}

Result<Fd> seqpacket_listen(const std::string& path, mode_t mode, gid_t group, int backlog) {
  TRY(sockaddr_un address, address_of(path));
  TRY(Fd fd, new_socket());
  ::unlink(path.c_str());
  // The file must never be open to more than it will be in the end: made under a closed mask, widened after
  // chown.
  mode_t old = ::umask(0777);
  int bound = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  int saved = errno;
  ::umask(old);
  if (bound != 0) return Error::from_errno(saved, fmt::format("bind {}", path));
  if (::chown(path.c_str(), static_cast<uid_t>(-1), group) != 0 || ::chmod(path.c_str(), mode) != 0) {
    return Error::from_errno(errno, fmt::format("set owner and mode of {}", path));
  }
  if (::listen(fd.get(), backlog) != 0) return Error::from_errno(errno, fmt::format("listen on {}", path));
  return fd;
}

Result<Fd> seqpacket_connect(const std::string& path) {
  TRY(sockaddr_un address, address_of(path));
  TRY(Fd fd, new_socket());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Error::from_errno(errno, fmt::format("connect to {}", path));
  }
  return fd;
}

Result<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return Error::from_errno(errno, "ask the kernel who the peer is");
  }
  return Peer{credentials.pid, credentials.uid, credentials.gid};
}

Result<void> send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds,
                          Blocking blocking) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fds.size() > kMaxPassedFds) return make_error(Code::kInternal, "too many descriptors in a message");
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t n;
  do n = ::sendmsg(socket, &message, MSG_NOSIGNAL | (blocking == Blocking::kYes ? 0 : MSG_DONTWAIT));
  while (n < 0 && errno == EINTR);
  if (n < 0) return Error::from_errno(errno, "send a message");
  return success();
}

Result<Received> receive_message(int socket, std::span<std::byte> buffer, Blocking blocking) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (blocking == Blocking::kYes ? 0 : MSG_DONTWAIT));
  while (n < 0 && errno == EINTR);
  if (n < 0) return Error::from_errno(errno, "receive a message");
  Received received;
  received.size = static_cast<std::size_t>(n);
  received.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace atl::sys
