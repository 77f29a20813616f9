// SPDX-License-Identifier: Apache-2.0
//
// Takes the memory of sandboxes that rest in RAM to the host's swap, one after the other, beside the workers
// and never on the way of a pause. Where the host has no swap it would take nothing but caches: see
// has_swap().
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "sys/cgroup.h"

namespace atl::runner {

// Whether a table of swap areas (text of /proc/swaps, proc(5)) has any.
bool has_swap(std::string_view swaps);

class Evictor {
 public:
  // `cgroups` outlives it.
  explicit Evictor(const sys::Cgroups& cgroups);
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;
  ~Evictor();

  // The members of this group stand still. Does not block.
  void add(const std::string& name);
  // They are about to go on: from here on nothing is taken from them and their limits are whole. Blocks for
  // one step at most, which is 16 MiB.
  void wake(const std::string& name);

 private:
  void work();
  void evict(const std::string& name);
  void rest();
  bool wanted(const std::string& name);

  const sys::Cgroups& cgroups_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::string current_;  // none: ""
  bool broken_off_ = false;
  bool ending_ = false;
  std::thread thread_;  // the last, since it uses the others
};

}  // namespace atl::runner
