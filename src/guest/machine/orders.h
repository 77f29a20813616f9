// SPDX-License-Identifier: Apache-2.0
//
// The channel between the runner and the first program of a guest, and the orders that need nothing of the
// sandbox: time, random numbers, standstill.
#pragma once

#include <string>

#include "base/result.h"
#include "model/machine.h"
#include "sys/fd.h"

namespace atl::guest {

// The guest's end. The host's comes and goes with the runner; orders of one that went in the middle are
// dropped with it.
class Channel {
 public:
  static Result<Channel> open();
  int descriptor() const { return port_.get(); }
  // One order, when there is one whole. Blocks while there is nothing to read, but not while no runner is
  // there.
  Result<bool> read(model::MachineOrder& order);
  void answer(std::uint64_t number, const Result<void>& result);

 private:
  explicit Channel(sys::Fd port) : port_(std::move(port)) {}
  sys::Fd port_;
  std::string buffer_;
};

// Sets the clock and feeds the kernel's random numbers, which a copy has in common with its twins until then.
void freshen(const model::MachineOrder& order);

// All processes of the cgroup `group` stand still, and what they have written is in the file system `disk`,
// which takes no more until thaw_disk(); the processes until go_on(). All may be repeated.
Result<void> come_to_rest(const std::string& group, const std::string& disk);
Result<void> thaw_disk(const std::string& disk);
Result<void> go_on(const std::string& group);

// Host name, hosts and machine id, anew, in the tree `root`, whose owner is hostile. A file that the owner
// left no room for, or put a directory at, stays as it is: nobody is to be kept from starting by that.
Result<void> take_names(const std::string& root, const std::string& name);

}  // namespace atl::guest
