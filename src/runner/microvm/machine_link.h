// SPDX-License-Identifier: Apache-2.0
//
// The runner's ends of the sockets of machines. They are made by the runner and named by the sandbox below
// the run directory, so that a later runner finds them: `<directory>/<sandbox>.channel` leads to the guest's
// first program, `<sandbox>.qmp` to QEMU's monitor. What comes from either is hostile.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "model/machine.h"
#include "sys/fd.h"

namespace atl::runner::microvm {

// Sockets on which QEMU accepts.
struct MachineSockets {
  sys::Fd channel, qmp;
};

// All machines of this runner. Use from any thread; one order of a machine at a time.
class MachineLinks {
 public:
  explicit MachineLinks(std::string directory) : directory_(std::move(directory)) {}

  Result<MachineSockets> listen(const std::string& sandbox) const;
  // Waits until a machine that boots says that it is parked.
  Result<void> wait_until_parked(const std::string& sandbox, Millis bound);
  // Has an order carried out. kDeadline when the guest does not answer.
  Result<void> order(const std::string& sandbox, const model::MachineOrder& order, Millis bound);
  // The same; `sent` is set when the guest can have got the order, also where nothing comes of it.
  Result<void> order(const std::string& sandbox, model::MachineOrder order, Millis bound, bool& sent);
  Result<sys::Fd> connect_monitor(const std::string& sandbox) const;
  // The machine is gone.
  void drop(const std::string& sandbox);

 private:
  struct Link {
    std::mutex mutex;
    sys::Fd socket;
    std::uint64_t number = 0;
  };
  using LinkPtr = std::shared_ptr<Link>;
  LinkPtr find(const std::string& sandbox) const;  // none: nullptr
  Result<LinkPtr> link_of(const std::string& sandbox);
  std::string path(const std::string& sandbox, const char* which) const;
  const std::string directory_;
  mutable std::mutex mutex_;
  std::map<std::string, LinkPtr> links_;
};

}  // namespace atl::runner::microvm
