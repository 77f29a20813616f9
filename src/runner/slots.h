// SPDX-License-Identifier: Apache-2.0
//
// Slots: network namespaces made ahead of time, each with its link to the host, its firewall class, and the
// small things whose owner depends on the slot's uid range. A slot's number is leased to one sandbox at a
// time; it comes back only after the kernel has let go of the link.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runner/launcher.h"
#include "sys/fd.h"
#include "sys/netlink/netlink.h"

namespace atl::runner {

struct Slot {
  std::uint32_t number = 0;
  sys::Fd netns;
  sys::Fd listener;  // TCP, bound to the guest daemon's port inside, listening
  sys::Fd kit;       // detached tmpfs: dev/ sys/ empty/ null
  sys::Fd userns;    // maps the slot's uid range, for idmapped mounts
};

struct SlotRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool contains(std::uint32_t number) const { return number >= first && number - first < count; }
};

class SlotPool {
 public:
  SlotPool(SlotRange range, Launcher& launcher);
  ~SlotPool();

  // Numbers that live sandboxes hold; call before start().
  void adopt(std::uint32_t number);
  // Starts the background thread, which keeps `ready` slots.
  Result<void> start(std::uint32_t ready);
  void set_ready(std::uint32_t count);

  // A ready slot; waits while one is being made. kExhausted when all are in use.
  Result<Slot> lease(Millis timeout);
  // The sandbox is gone. The number becomes free when its link is.
  void release(std::uint32_t number);

  std::uint32_t total() const { return range_.count; }

 private:
  void run();
  Millis idle_time_locked() const;
  Result<Slot> build(std::uint32_t number);
  std::optional<std::uint32_t> take_number_locked();
  void collect_drained(std::unique_lock<std::mutex>& lock);

  const SlotRange range_;
  Launcher& launcher_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> ready_;
  std::set<std::uint32_t> free_;
  std::set<std::uint32_t> draining_;  // waiting for their link to vanish
  std::uint32_t wanted_ = 0;
  bool building_ = false;      // a number is in none of these sets
  std::uint32_t waiting_ = 0;  // callers of lease()
  Steady::time_point last_lease_{};
  std::string last_error_;
  bool stop_ = false;
  sys::Fd host_netns_;
  std::optional<sys::Netlink> host_;
  std::thread thread_;
};

}  // namespace atl::runner
