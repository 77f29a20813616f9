// SPDX-License-Identifier: Apache-2.0
#include "runner/microvm/machine_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/patience.h"
#include "base/random.h"
#include "runner/driver.h"
#include "sys/files.h"

namespace atl::runner::microvm {
namespace {

using sys::Fd;

// By a short name of the directory: sun_path has 108 bytes (unix(7)).
Result<sockaddr_un> address_of(const Fd& directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = fmt::format("/proc/self/fd/{}/{}", directory.get(), name);
  if (path.size() >= sizeof address.sun_path)
    return make_error(Code::kInternal, "the name of socket {} is too long", name);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> make_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error::from_errno(errno, "make a socket");
  return socket;
}

Result<Fd> listen_at(const std::string& folder, const std::string& name) {
  TRY(Fd directory, sys::open_file(folder, O_PATH | O_DIRECTORY));
  TRY(sockaddr_un address, address_of(directory, name));
  TRY(Fd socket, make_socket());
  ::unlinkat(directory.get(), name.c_str(), 0);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 1) != 0)
    return Error::from_errno(errno, fmt::format("listen at {}/{}", folder, name));
  return socket;
}

Result<void> bound_sends(const Fd& socket, Millis bound) {
  timeval time{bound.count() / 1000, bound.count() % 1000 * 1000};
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) != 0)
    return Error::from_errno(errno, "bound the sends of a socket");
  return success();
}

// KERNEL: connect(2) waits while the line of those that wait to be accepted is full, for no longer than
// SO_SNDTIMEO (socket(7)), and fails with EAGAIN then. A QEMU that accepts nobody would hold us for ever.
Result<Fd> connect_to(const std::string& folder, const std::string& name) {
  TRY(Fd directory, sys::open_file(folder, O_PATH | O_DIRECTORY));
  TRY(sockaddr_un address, address_of(directory, name));
  TRY(Fd socket, make_socket());
  TRY_VOID(bound_sends(socket, patient(kPauseBound)));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return Error::from_errno(errno, fmt::format("connect to {}/{}", folder, name));
  TRY_VOID(bound_sends(socket, Millis(0)));
  return socket;
}

// Whole replies; what a guest sends beyond that has no reader.
Result<model::MachineReply> read_reply(int socket, Steady::time_point until) {
  model::MachineReply reply{};
  auto* at = reinterpret_cast<char*>(&reply);
  for (std::size_t done = 0; done < sizeof reply;) {
    auto left = std::chrono::ceil<Millis>(until - Steady::now());
    pollfd item{socket, POLLIN, 0};
    // Also with something to read: a guest that never stops to answer is late at the bound.
    int n = left.count() > 0 ? ::poll(&item, 1, static_cast<int>(left.count())) : 0;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return make_error(Code::kDeadline, "the guest did not answer in time");
    ssize_t got = ::recv(socket, at + done, sizeof reply - done, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return make_error(Code::kUnavailable, "QEMU ended before the guest answered");
    done += static_cast<std::size_t>(got);
  }
  if (reply.magic != model::kMachineMagic) return make_error(Code::kCorrupt, "the guest answered nonsense");
  return reply;
}

}  // namespace

std::string MachineLinks::path(const std::string& sandbox, const char* which) const {
  return fmt::format("{}/{}.{}", directory_, sandbox, which);
}

Result<MachineSockets> MachineLinks::listen(const std::string& sandbox) const {
  MachineSockets sockets;
  TRY(sockets.channel, listen_at(directory_, sandbox + ".channel"));
  TRY(sockets.qmp, listen_at(directory_, sandbox + ".qmp"));
  return sockets;
}

MachineLinks::LinkPtr MachineLinks::find(const std::string& sandbox) const {
  std::lock_guard lock(mutex_);
  auto link = links_.find(sandbox);
  return link == links_.end() ? nullptr : link->second;
}

// Without the mutex where it connects: no QEMU keeps the others waiting.
Result<MachineLinks::LinkPtr> MachineLinks::link_of(const std::string& sandbox) {
  if (LinkPtr known = find(sandbox)) return known;
  auto made = std::make_shared<Link>();
  TRY(made->socket, connect_to(directory_, sandbox + ".channel"));
  // Not those of an earlier runner, whose answers may still come.
  std::uint8_t start[4];
  random_bytes(start);
  std::memcpy(&made->number, start, sizeof start);
  made->number = (made->number << 16) + 1;
  std::lock_guard lock(mutex_);
  return links_.try_emplace(sandbox, std::move(made)).first->second;
}

Result<void> MachineLinks::wait_until_parked(const std::string& sandbox, Millis bound) {
  TRY(LinkPtr link, link_of(sandbox));
  std::lock_guard lock(link->mutex);
  TRY(model::MachineReply reply, read_reply(link->socket.get(), Steady::now() + bound));
  if (reply.number == 0 && reply.error == 0) return success();
  return make_error(Code::kInternal, "the guest could not be prepared (errno {})", reply.error);
}

Result<void> MachineLinks::order(const std::string& sandbox, const model::MachineOrder& order, Millis bound) {
  bool ignored = false;
  return this->order(sandbox, order, bound, ignored);
}

Result<void> MachineLinks::order(const std::string& sandbox, model::MachineOrder order, Millis bound,
                                 bool& sent) {
  TRY(LinkPtr link, link_of(sandbox));
  std::lock_guard lock(link->mutex);
  auto until = Steady::now() + bound;
  order.magic = model::kMachineMagic;
  order.number = ++link->number;
  order.time_ms = system_clock().now().ms;
  random_bytes(order.random);
  // The socket holds many of these; a guest that reads none is refused when it is full.
  if (::send(link->socket.get(), &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof order)
    return Error::from_errno(errno, "tell the guest what to do");
  sent = true;
  while (true) {
    TRY(model::MachineReply reply, read_reply(link->socket.get(), until));
    if (reply.number != order.number) continue;  // of an order that nobody waits for any more
    if (reply.error == 0) return success();
    return Error::from_errno(std::clamp(reply.error, 1, 4095), "the guest could not do it");
  }
}

Result<Fd> MachineLinks::connect_monitor(const std::string& sandbox) const {
  return connect_to(directory_, sandbox + ".qmp");
}

void MachineLinks::drop(const std::string& sandbox) {
  {
    std::lock_guard lock(mutex_);
    links_.erase(sandbox);
  }
  ::unlink(path(sandbox, "channel").c_str());
  ::unlink(path(sandbox, "qmp").c_str());
}

}  // namespace atl::runner::microvm
