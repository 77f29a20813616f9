// SPDX-License-Identifier: Apache-2.0
//
// RunnerClient: control's end of the wire to atoll-runner (model/runner_protocol.h). Keeps one connection,
// makes it anew with back-off, matches replies to requests, and gives each request a deadline.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/scope.h"
#include "model/runner_protocol.h"
#include "net/seqpacket.h"

namespace atl::control {

using async::Task;
namespace wire = model::wire;

// Use from one loop.
class RunnerClient {
 public:
  using Connect = std::function<Task<Result<net::SeqPacketPtr>>()>;
  struct Listener {
    std::function<void()> connected;  // a new connection said hello; reconcile
    std::function<void()> disconnected;
    std::function<void(const wire::ExitedEvent&)> exited;
    std::function<void()> host_changed;  // hello() says more than before
  };
  RunnerClient(async::Executor executor, Connect connect);
  ~RunnerClient();

  // Connects and stays connected until stop(). `listener` is called on the loop.
  void start(Listener listener);
  Task<> stop();

  bool connected() const { return ready_; }
  // What the runner said at the last hello or has told since; only valid while connected().
  const wire::HelloReply& hello() const { return hello_; }

  // Each gives kUnavailable with the word runner_unavailable when the runner is not there or goes away, and
  // kDeadline when it does not answer in time. A request whose fate is unknown is settled by the next
  // reconcile.
  Task<Result<wire::StartReply>> start_sandbox(wire::StartRequest request);
  // The answer says how it rests then. `in_place`: its memory stays where it is, whatever the tier can.
  Task<Result<wire::PauseReply>> pause_sandbox(std::string sandbox, bool memory, bool in_place = false);
  Task<Result<wire::StartReply>> resume_sandbox(wire::StartRequest request);
  Task<Result<wire::StopReply>> stop_sandbox(std::string sandbox, std::uint64_t generation);
  Task<Result<std::vector<wire::ListReply>>> list();
  Task<Result<wire::StatsReply>> stats(std::string sandbox, std::uint64_t generation);
  // CPU time in us of up to wire::kUsageBatch sandboxes, in the order of the names; wire::kUsageUnknown for
  // one that is not there.
  Task<Result<std::vector<std::uint64_t>>> usage(std::vector<std::string> sandboxes);
  Task<Result<void>> network(std::string sandbox, std::uint64_t generation, model::NetworkRules rules);
  // Labels 1 to `count` of its commands have an identity afterwards.
  Task<Result<void>> labels(std::string sandbox, std::uint64_t generation, std::size_t count);
  Task<Result<void>> forget_build(std::string build);
  Task<Result<wire::SnapshotReply>> snapshot(std::string sandbox, std::uint64_t generation,
                                             std::string snapshot, bool memory);
  Task<Result<void>> drop_snapshot(std::string snapshot);
  Task<Result<std::vector<wire::SnapshotListReply>>> list_snapshots();

 private:
  struct Waiter {
    explicit Waiter(async::Executor executor) : changed(std::move(executor)) {}
    async::Event changed;
    std::vector<std::string> replies;
    bool complete = false;
    bool lost = false;
  };
  using WaiterPtr = std::shared_ptr<Waiter>;

  Task<> run();
  Task<Result<void>> serve_connection();
  Task<> read_loop(net::SeqPacketPtr connection);
  void take_message(const std::string& message);
  bool take_event(const std::string& message, wire::Type type);
  template <class Item>
  Task<Result<std::vector<Item>>> collect(wire::Type type);
  void drop_connection();
  template <class Reply, class Request>
  Task<Result<Reply>> call(Request request, wire::Type type, wire::Type reply, Steady::duration limit);
  template <class Request>
  Task<Result<WaiterPtr>> exchange(Request request, wire::Type type, Steady::duration limit);

  async::Executor executor_;
  async::Scope scope_;
  async::Event wake_;
  Connect connect_;
  Listener listener_;
  net::SeqPacketPtr connection_;
  wire::HelloReply hello_{};
  bool ready_ = false;
  bool told_ = false;  // hello_ came as an event of this connection
  bool stopping_ = false;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, WaiterPtr> waiters_;  // bounded by kMaxPending
};

}  // namespace atl::control
