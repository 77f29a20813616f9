// SPDX-License-Identifier: Apache-2.0
#include "runner/slots.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/fault.h"
#include "base/log.h"
#include "model/guest_boot.h"
#include "runner/kit.h"
#include "runner/names.h"
#include "runner/netns.h"
#include "sys/files.h"

namespace atl::runner {
namespace {

using sys::Fd;

constexpr int kGuestBacklog = 1024;
constexpr Millis kDrainCheck{20};
// Making a slot competes with a start for kernel locks and processors, so while enough are left it waits for
// a quiet moment.
constexpr Millis kQuiet{15};
constexpr Millis kRetryAfterError{500};

// The socket that the guest daemon will serve. Made here, so that a connection waits in its backlog from the
// start on.
Result<Fd> listen_inside() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Error::from_errno(errno, "make the guest daemon's socket");
  int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(model::kGuestPort);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kGuestBacklog) != 0) {
    return Error::from_errno(errno, "listen for the guest daemon");
  }
  return fd;
}

// Seen by the calling thread: /proc/sys/net shows the namespace of whoever looks.
Result<void> set_inside_sysctls() {
  // IPv6 stays on lo only: servers bind to ::1, nothing routes it.
  TRY_VOID(sys::write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"));
  // The namespace belongs to the host, so root inside has no CAP_NET_BIND_SERVICE over it.
  return sys::write_file("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}

Result<void> configure_host(sys::Netlink& host, std::uint32_t number) {
  std::string name = link_name(number);
  TRY(std::uint32_t link, host.link_index(name));
  std::string conf = fmt::format("/proc/sys/net/ipv4/conf/{}/", name);
  // The source of every packet is 169.254.0.21, which no route of the host leads to; the firewall checks it
  // instead.
  TRY_VOID(sys::write_file(conf + "rp_filter", "0"));
  // Answer for the addresses of this link only.
  TRY_VOID(sys::write_file(conf + "arp_ignore", "1"));
  TRY_VOID(sys::write_file(conf + "accept_redirects", "0"));
  TRY_VOID(sys::write_file(conf + "send_redirects", "0"));
  static_cast<void>(sys::write_file(fmt::format("/proc/sys/net/ipv6/conf/{}/disable_ipv6", name), "1"));
  // In this order: the first address is the source of the host's own connections, and tells slots apart.
  TRY_VOID(host.add_address(link, host_address(number), 32));
  TRY_VOID(host.add_address(link, kGatewayAddress, 32));
  TRY_VOID(host.set_up(link));
  TRY_VOID(host.add_neighbour(link, alias_address(number), kInsideMac));
  return host.add_route(link, alias_address(number), 32, std::nullopt);
}

// The kernel remembers a connection for days after its sandbox. The slot's next owner would find its share
// of connections used up, and would get what strangers still send to the last one.
void forget_connections(std::uint32_t number) {
  // Also those of the host into the slot: what its last owner left open would count as the next one's (0093).
  for (sys::Ipv4 source : {alias_address(number), host_address(number)}) {
    Result<void> done = sys::forget_flows(source);
    if (!done.ok())
      log::warn("connections of a slot stay tracked", {{"slot", number}, {"error", done.error().message()}});
  }
}

}  // namespace

SlotPool::SlotPool(SlotRange range, Launcher& launcher) : range_(range), launcher_(launcher) {
  for (std::uint32_t i = 0; i < range.count; ++i) free_.insert(range.first + i);
}

SlotPool::~SlotPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SlotPool::adopt(std::uint32_t number) {
  std::lock_guard lock(mutex_);
  free_.erase(number);
}

Result<void> SlotPool::start(std::uint32_t ready) {
  TRY(host_netns_, sys::open_file("/proc/self/ns/net", O_RDONLY));
  TRY(sys::Netlink host, sys::Netlink::open_route());
  host_.emplace(std::move(host));
  // Links of an earlier runner go away by themselves with their namespaces; until then their numbers are not
  // free.
  TRY(std::vector<std::string> links, host_->links(kLinkPrefix));
  for (const std::string& link : links) {
    std::optional<std::uint32_t> number;
    for (std::uint32_t candidate : free_) {
      if (link_name(candidate) == link) number = candidate;
    }
    if (!number) continue;
    free_.erase(*number);
    draining_.insert(*number);
  }
  wanted_ = ready;
  thread_ = std::thread([this] { run(); });
  return success();
}

void SlotPool::set_ready(std::uint32_t count) {
  std::lock_guard lock(mutex_);
  wanted_ = std::min(count, range_.count);
  changed_.notify_all();
}

Result<Slot> SlotPool::lease(Millis timeout) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  bool got = changed_.wait_for(lock, timeout, [this] {
    return !ready_.empty() || stop_ || (free_.empty() && draining_.empty() && !building_);
  });
  --waiting_;
  if (ready_.empty()) {
    if (!got && !last_error_.empty()) {
      return make_error(Code::kUnavailable, "no slot could be made: {}", last_error_)
          .with_word("host_capacity");
    }
    return make_error(Code::kExhausted, "all {} slots are in use", range_.count)
        .with_word("host_capacity")
        .with_hint("stop a sandbox, or raise --slot-count");
  }
  Slot slot = std::move(ready_.front());
  ready_.pop_front();
  last_lease_ = Steady::now();
  changed_.notify_all();
  return slot;
}

void SlotPool::release(std::uint32_t number) {
  std::lock_guard lock(mutex_);
  CHECK(!free_.contains(number), "slot {} released twice", number);
  draining_.insert(number);
  changed_.notify_all();
}

// Numbers whose link the kernel has removed. Only the background thread speaks to host_.
void SlotPool::collect_drained(std::unique_lock<std::mutex>& lock) {
  std::set<std::uint32_t> asked = draining_;
  if (asked.empty()) return;
  lock.unlock();  // starts must not wait while the kernel is asked
  std::erase_if(asked, [this](std::uint32_t number) {
    Result<std::uint32_t> link = host_->link_index(link_name(number));
    return link.ok() || link.error().code() != Code::kNotFound;
  });
  for (std::uint32_t number : asked) forget_connections(number);
  lock.lock();
  for (std::uint32_t number : asked) {
    draining_.erase(number);
    if (range_.contains(number)) free_.insert(number);
  }
}

std::optional<std::uint32_t> SlotPool::take_number_locked() {
  if (free_.empty()) return std::nullopt;
  std::uint32_t number = *free_.begin();
  free_.erase(free_.begin());
  return number;
}

// How long the background thread may sleep; zero: there is a slot to make now.
Millis SlotPool::idle_time_locked() const {
  constexpr Millis kForever{3'600'000};
  if (ready_.size() < waiting_) return Millis(0);
  if (ready_.size() >= wanted_) return kForever;
  if (ready_.size() <= wanted_ / 2) return Millis(0);
  auto quiet_for = std::chrono::duration_cast<Millis>(Steady::now() - last_lease_);
  return std::max(kQuiet - quiet_for, Millis(0));
}

void SlotPool::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    collect_drained(lock);  // without the lock for a while: what was told meanwhile is looked at below
    if (stop_) return;
    Millis idle = idle_time_locked();
    std::optional<std::uint32_t> number = idle == Millis(0) ? take_number_locked() : std::nullopt;
    if (!number) {
      if (!draining_.empty() || idle == Millis(0)) idle = kDrainCheck;
      changed_.wait_for(lock, idle);
      continue;
    }
    building_ = true;
    lock.unlock();
    Result<Slot> slot = build(*number);
    FAULT("runner.slot.after_build");
    lock.lock();
    building_ = false;
    if (slot.ok()) {
      last_error_.clear();
      ready_.push_back(std::move(*slot));
      changed_.notify_all();
      continue;
    }
    last_error_ = slot.error().message();
    log::warn("slot not made", {{"slot", *number}, {"error", last_error_}});
    draining_.insert(*number);
    changed_.wait_for(lock, kRetryAfterError, [this] { return stop_; });
  }
}

Result<Slot> SlotPool::build(std::uint32_t number) {
  forget_connections(number);  // of an owner whose runner did not come back
  Slot slot;
  slot.number = number;
  LaunchOrder order{};
  order.kind = OrderKind::kUserns;
  order.uid_base = uid_base(number);
  PassedFds none;
  none.fill(-1);
  TRY(Launcher::Launched userns, launcher_.order(order, none));
  slot.userns = std::move(userns.fd);
  TRY(slot.kit, build_kit(uid_base(number)));

  NetnsVisit visit(host_netns_.get());
  if (::unshare(CLONE_NEWNET) != 0) return Error::from_errno(errno, "make a network namespace");
  TRY(slot.netns, sys::open_file("/proc/thread-self/ns/net", O_RDONLY));
  TRY_VOID(set_inside_sysctls());
  TRY(sys::Netlink inside, sys::Netlink::open_route());
  TRY_VOID(inside.create_veth("eth0", kInsideMac, link_name(number), host_mac(number), host_netns_.get()));
  FAULT("runner.slot.after_link");
  // Where rp_filter and friends of the host's end are set, the host's view is needed.
  TRY_VOID(configure_inside(inside));
  TRY(slot.listener, listen_inside());
  if (::setns(host_netns_.get(), CLONE_NEWNET) != 0)
    return Error::from_errno(errno, "return to the host's network");
  TRY_VOID(configure_host(*host_, number));
  return slot;
}

}  // namespace atl::runner
