// SPDX-License-Identifier: Apache-2.0
#include "guest/machine/orders.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "sys/files.h"

namespace atl::guest {
namespace {

using sys::Fd;

constexpr char kPort[] = "/dev/vport0p1";
constexpr int kAwayLookMs = 10;  // while no runner is there
constexpr int kFreezeLooks = 2'500, kFreezeLookMs = 2;

}  // namespace

Result<Channel> Channel::open() {
  // KERNEL: a work queue adds the port some time after its module is loaded, and its node is there a moment
  // before it can be opened (ENXIO; drivers/char/virtio_console.c, add_port).
  constexpr int kLooks = 1000, kPauseMs = 10;
  for (int look = 1;; ++look) {
    Result<Fd> port = sys::open_file(kPort, O_RDWR);
    if (port.ok()) return Channel(std::move(*port));
    int error = port.error().sys_errno();
    if (look == kLooks || (error != ENOENT && error != ENXIO)) return std::move(port).error();
    ::poll(nullptr, 0, kPauseMs);
  }
}

// KERNEL: with no reader on the host's end, poll(2) of a virtio port says POLLHUP at once and read(2) gives
// 0; the port must stay open all the same (drivers/char/virtio_console.c).
Result<bool> Channel::read(model::MachineOrder& order) {
  char bytes[sizeof order];
  ssize_t n = ::read(port_.get(), bytes, sizeof order - buffer_.size());
  if (n < 0 && errno == EINTR) return false;
  if (n < 0) return Error::from_errno(errno, "read an order");
  if (n == 0) {
    buffer_.clear();
    ::poll(nullptr, 0, kAwayLookMs);
    return false;
  }
  buffer_.append(bytes, static_cast<std::size_t>(n));
  if (buffer_.size() < sizeof order) return false;
  std::memcpy(&order, buffer_.data(), sizeof order);
  buffer_.clear();
  if (order.magic != model::kMachineMagic)
    return make_error(Code::kCorrupt, "the channel does not hold a MachineOrder");
  return true;
}

void Channel::answer(std::uint64_t number, const Result<void>& result) {
  model::MachineReply reply{model::kMachineMagic, 0, number};
  if (!result.ok()) {
    reply.error = result.error().sys_errno() != 0 ? result.error().sys_errno() : EIO;
    std::printf("atoll-vminit: %s\n", result.error().message().c_str());
    std::fflush(stdout);
  }
  static_cast<void>(!::write(port_.get(), &reply, sizeof reply));
}

void freshen(const model::MachineOrder& order) {
  timespec now{static_cast<time_t>(order.time_ms / 1000), order.time_ms % 1000 * 1'000'000};
  ::clock_settime(CLOCK_REALTIME, &now);
  // struct rand_pool_info: bits of entropy, bytes, then the bytes themselves (random(4)).
  struct {
    int entropy_bits, size;
    std::uint8_t bytes[sizeof order.random];
  } pool{8 * static_cast<int>(sizeof order.random), static_cast<int>(sizeof order.random), {}};
  std::memcpy(pool.bytes, order.random, sizeof order.random);
  Result<Fd> device = sys::open_file("/dev/urandom", O_WRONLY);
  if (!device.ok() || ::ioctl(device->get(), RNDADDENTROPY, &pool) != 0 ||
      ::ioctl(device->get(), RNDRESEEDCRNG, 0) != 0)
    std::printf("atoll-vminit: random numbers: errno %d\n", errno);
}

// KERNEL: FIFREEZE writes everything out, empties the journal, and holds who writes until FITHAW (ioctl_fs);
// EBUSY: it is so already.
Result<void> come_to_rest(const std::string& group, const std::string& disk) {
  TRY_VOID(sys::write_file(group + "/cgroup.freeze", "1"));
  bool still = false;
  for (int i = 0; i < kFreezeLooks && !still; ++i) {
    still = sys::read_file(group + "/cgroup.events").value_or("").find("frozen 1") != std::string::npos;
    if (!still) ::poll(nullptr, 0, kFreezeLookMs);
  }
  Result<void> done = still ? success() : Result<void>(Error::from_errno(ETIMEDOUT, "stop all processes"));
  Result<Fd> folder = sys::open_file(disk, O_RDONLY | O_DIRECTORY);
  if (done.ok() && folder.ok() && ::ioctl(folder->get(), FIFREEZE, 0) != 0 && errno != EBUSY)
    done = Error::from_errno(errno, "write the disk out");
  if (!done.ok()) static_cast<void>(sys::write_file(group + "/cgroup.freeze", "0"));
  return done;
}

Result<void> thaw_disk(const std::string& disk) {
  TRY(Fd folder, sys::open_file(disk, O_RDONLY | O_DIRECTORY));
  // EINVAL: it was not frozen.
  if (::ioctl(folder.get(), FITHAW, 0) != 0 && errno != EINVAL)
    return Error::from_errno(errno, "use the disk again");
  return success();
}

Result<void> go_on(const std::string& group) { return sys::write_file(group + "/cgroup.freeze", "0"); }

namespace {

// Under its name only when it is whole, so that what was there stays where there is no room.
Result<void> put_file(int folder, const char* name, const std::string& text, mode_t mode) {
  std::string draft = fmt::format(".{}.new", name);
  ::unlinkat(folder, draft.c_str(), 0);
  Result<Fd> file = sys::open_beneath(folder, draft, O_WRONLY | O_CREAT | O_EXCL, mode);
  Result<void> written = file.ok() ? sys::write_all(file->get(), text) : std::move(file).error();
  if (written.ok() && ::renameat(folder, draft.c_str(), folder, name) != 0)
    written = Error::from_errno(errno, "rename a file");
  if (!written.ok()) ::unlinkat(folder, draft.c_str(), 0);
  return written;
}

}  // namespace

Result<void> take_names(const std::string& root, const std::string& name) {
  if (::sethostname(name.data(), name.size()) != 0) return Error::from_errno(errno, "set the host name");
  const struct {
    const char* file;
    std::string text;
    mode_t mode;
  } files[] = {{"hostname", name + "\n", 0644},
               {"hosts", fmt::format("127.0.0.1\tlocalhost\n127.0.1.1\t{}\n", name), 0644},
               {"machine-id", random_hex(16) + "\n", 0444}};
  TRY(Fd top, sys::open_file(root, O_RDONLY | O_DIRECTORY));
  Result<Fd> etc = sys::open_beneath(top.get(), "etc", O_RDONLY | O_DIRECTORY);
  if (!etc.ok()) return success();  // it has no use for them
  for (const auto& item : files) {
    Result<void> put = put_file(etc->get(), item.file, item.text, item.mode);
    if (!put.ok()) std::printf("atoll-vminit: /etc/%s: %s\n", item.file, put.error().message().c_str());
  }
  std::fflush(stdout);
  return success();
}

}  // namespace atl::guest
