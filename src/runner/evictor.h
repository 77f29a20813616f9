// SPDX-License-Identifier: Apache-2.0
//
// Takes the memory of sandboxes that rest in RAM to the host's swap, a step of each in turn, beside the
// workers and never on the way of a pause. Where the host has no swap it would take nothing but caches: see
// has_swap().
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "sys/cgroup.h"

namespace atl::runner {

// Whether a table of swap areas (text of /proc/swaps, proc(5)) has any.
bool has_swap(std::string_view swaps);

class Evictor {
 public:
  // How memory is taken from a group.
  struct Means {
    std::function<Result<std::uint64_t>(const std::string& name, std::uint64_t bytes)> step;  // what went
    std::function<Result<void>(const std::string& name)> end;  // makes its limits whole
    Millis rest;  // of a group, after a step that took next to nothing
  };
  // `cgroups` outlives it.
  explicit Evictor(const sys::Cgroups& cgroups);
  explicit Evictor(Means means);
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;
  ~Evictor();

  // The members of this group stand still. Does not block.
  void add(const std::string& name);
  // They are about to go on: from here on nothing is taken from them and their limits are whole. Blocks for
  // one step of theirs at most, which is 16 MiB.
  void wake(const std::string& name);

 private:
  struct Group {
    Steady::time_point begun, due;  // when it was added; when its next step is
    std::uint64_t taken = 0;
    int idle = 0;  // steps in a row that took next to nothing
  };
  using Groups = std::map<std::string, Group>;
  void work();
  Groups::iterator wait_for_due(std::unique_lock<std::mutex>& lock);
  void take_step(std::unique_lock<std::mutex>& lock, const std::string& name);
  bool note(Group& group, const Result<std::uint64_t>& step) const;
  void end(const std::string& name, const Group& group, const Result<std::uint64_t>& last) const;

  const Means means_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Groups groups_;
  std::string current_;  // whose limits the thread is about to change; none: ""
  bool ending_ = false;
  std::thread thread_;  // the last, since it uses the others
};

}  // namespace atl::runner
