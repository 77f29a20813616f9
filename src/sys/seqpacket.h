// SPDX-License-Identifier: Apache-2.0
//
// Unix sockets that keep message borders and carry descriptors (unix(7)). Blocking unless said otherwise.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sys/fd.h"

namespace atl::sys {

inline constexpr std::size_t kMaxPassedFds = 32;

Result<std::pair<Fd, Fd>> seqpacket_pair();
// A listening socket at `path`; an old one is replaced. Mode and group decide who may connect.
Result<Fd> seqpacket_listen(const std::string& path, mode_t mode, gid_t group, int backlog);
Result<Fd> seqpacket_connect(const std::string& path);

struct Peer {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
// Who connected, as the kernel saw it at connect(2).
Result<Peer> peer_of(int socket);

enum class Blocking : bool { kNo, kYes };
// One message with its descriptors. Never raises SIGPIPE.
Result<void> send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds = {},
                          Blocking blocking = Blocking::kYes);

struct Received {
  std::size_t size = 0;    // 0 = the peer is gone
  bool truncated = false;  // the message was longer than the buffer, or carried more descriptors than fit
  std::vector<Fd> fds;
};
Result<Received> receive_message(int socket, std::span<std::byte> buffer, Blocking blocking = Blocking::kYes);

// The bytes of a plain struct.
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

}  // namespace atl::sys
