// SPDX-License-Identifier: Apache-2.0
//
// RunnerLink: root's direct line to the runner, for `atoll down` and `atoll doctor` when control is gone or
// must not be trusted to answer. Blocking. The runner serves one connection at a time: ours takes control's
// place.
#pragma once

#include <string>
#include <vector>

#include "model/runner_protocol.h"
#include "sys/fd.h"

namespace atl::cli {

class RunnerLink {
 public:
  static Result<RunnerLink> connect(const std::string& run_dir);

  Result<model::wire::HelloReply> hello();
  struct Sandbox {
    std::string id;
    std::uint64_t generation = 0;
  };
  Result<std::vector<Sandbox>> list();
  // Kills it and returns when the kernel has let go of everything that was its.
  Result<void> stop(const Sandbox& sandbox);

 private:
  explicit RunnerLink(sys::Fd socket) : socket_(std::move(socket)) {}
  template <class Reply, class Request>
  Result<Reply> ask(Request& request, model::wire::Type type, model::wire::Type answer);
  template <class Reply>
  Result<Reply> receive(std::uint64_t id, model::wire::Type answer);

  sys::Fd socket_;
  std::uint64_t next_id_ = 1;
};

}  // namespace atl::cli
