// SPDX-License-Identifier: Apache-2.0
#include "control/runner_client.h"

#include "base/log.h"
#include "base/patience.h"

namespace atl::control {
namespace {

constexpr std::size_t kMaxPending = 4096;
constexpr Steady::duration kFirstBackoff = std::chrono::milliseconds(20);
constexpr Steady::duration kMaxBackoff = std::chrono::seconds(1);
constexpr Steady::duration kQuick = std::chrono::seconds(5);
constexpr Steady::duration kSlow = std::chrono::seconds(20);
constexpr Steady::duration kCopy = std::chrono::seconds(180);  // a disk is copied, checked and synced

Error runner_gone(std::string_view why) {
  return make_error(Code::kUnavailable, "the runner is not reachable: {}", why)
      .with_word("runner_unavailable")
      .with_hint("check that atoll-runner runs (atoll status); sandboxes that run already are not affected");
}

template <class Message>
std::string to_bytes(const Message& message) {
  return std::string(reinterpret_cast<const char*>(&message), sizeof message);
}

template <class Message>
Result<Message> from_bytes(const std::string& bytes) {
  if (bytes.size() != sizeof(Message)) {
    return make_error(Code::kCorrupt, "the runner sent {} bytes where {} were due", bytes.size(),
                      sizeof(Message));
  }
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}

Result<void> check_status(const wire::Status& status) {
  if (status.ok == 1) return {};
  Code code = status.code <= static_cast<std::uint8_t>(Code::kCorrupt) ? static_cast<Code>(status.code)
                                                                       : Code::kInternal;
  Error error(code, status.message.str());
  std::string word = status.word.str();
  if (word.empty()) return std::move(error).with_hint(status.hint.str());
  return std::move(error).with_word(word).with_hint(status.hint.str());
}

// Whether the list ends with this message; nothing when it is not one.
template <class Item>
std::optional<bool> ends_list(const std::string& message) {
  auto item = from_bytes<Item>(message);
  if (!item) return std::nullopt;
  return item->last == 1 || item->status.ok != 1;
}

wire::SandboxRef ref_of(const std::string& sandbox, std::uint64_t generation) {
  wire::SandboxRef ref{};
  ref.sandbox.set(sandbox);
  ref.generation = generation;
  return ref;
}

}  // namespace

RunnerClient::RunnerClient(async::Executor executor, Connect connect)
    : executor_(executor), scope_(executor), wake_(executor), connect_(std::move(connect)) {}

RunnerClient::~RunnerClient() = default;

void RunnerClient::start(Listener listener) {
  listener_ = std::move(listener);
  scope_.spawn("runner connection", run());
}

Task<> RunnerClient::stop() {
  stopping_ = true;
  drop_connection();
  wake_.notify_all();
  co_await scope_.join();
}

Task<> RunnerClient::run() {
  Steady::duration backoff = kFirstBackoff;
  bool told = false;
  while (!stopping_) {
    auto served = co_await serve_connection();
    if (stopping_) break;
    if (served) {
      backoff = kFirstBackoff;
      told = false;
    } else if (!told) {
      log::warn("no connection to the runner, trying again", {{"what", served.error().message()}});
      told = true;
    }
    co_await wake_.wait_until(Steady::now() + backoff);
    backoff = std::min(backoff * 2, kMaxBackoff);
  }
}

// One connection from connect to loss. Success when it had said hello.
Task<Result<void>> RunnerClient::serve_connection() {
  CO_TRY(connection_, co_await connect_());
  told_ = false;
  scope_.spawn("runner replies", read_loop(connection_));
  auto answer = co_await call<wire::HelloReply>(wire::Empty(), wire::Type::kHello, wire::Type::kHelloReply,
                                                patient(kQuick));
  if (!answer) {
    drop_connection();
    co_return std::move(answer).error();
  }
  if (!told_) hello_ = *answer;  // what was told meanwhile may be newer
  ready_ = true;
  log::info("connected to the runner", {{"pid", hello_.pid}, {"version", hello_.runner_version.str()}});
  if (listener_.connected) listener_.connected();
  while (connection_) co_await wake_.wait();
  co_return success();
}

Task<> RunnerClient::read_loop(net::SeqPacketPtr connection) {
  while (true) {
    auto message = co_await connection->receive(wire::kMaxMessage);
    if (connection != connection_) co_return;  // dropped meanwhile
    if (!message || message->empty()) break;
    take_message(*message);
    if (connection != connection_) co_return;
  }
  drop_connection();
}

void RunnerClient::drop_connection() {
  if (!connection_) return;
  connection_->close();
  connection_.reset();
  bool was_ready = std::exchange(ready_, false);
  for (auto& [id, waiter] : waiters_) {
    waiter->lost = true;
    waiter->changed.notify_all();
  }
  waiters_.clear();
  wake_.notify_all();
  if (was_ready) {
    if (!stopping_) log::warn("the runner went away", {});
    if (listener_.disconnected) listener_.disconnected();
  }
}

void RunnerClient::take_message(const std::string& message) {
  wire::Header header;
  if (message.size() < sizeof header) return drop_connection();
  std::memcpy(&header, message.data(), sizeof header);
  if (header.magic != wire::kMagic || header.version != wire::kVersion) {
    log::error("the runner speaks another version of the wire", {{"version", header.version}});
    return drop_connection();
  }
  if (header.id == 0) {
    if (!take_event(message, static_cast<wire::Type>(header.type))) drop_connection();
    return;
  }
  auto found = waiters_.find(header.id);
  if (found == waiters_.end()) return;  // its deadline has passed
  WaiterPtr waiter = found->second;
  waiter->replies.push_back(message);
  std::optional<bool> last = true;
  if (header.type == static_cast<std::uint16_t>(wire::Type::kListReply))
    last = ends_list<wire::ListReply>(message);
  if (header.type == static_cast<std::uint16_t>(wire::Type::kSnapshotListReply))
    last = ends_list<wire::SnapshotListReply>(message);
  if (!last) return drop_connection();
  waiter->complete = *last;
  if (!waiter->complete) return;
  waiters_.erase(found);
  waiter->changed.notify_all();
}

// False for what is no event of ours.
bool RunnerClient::take_event(const std::string& message, wire::Type type) {
  if (type == wire::Type::kHost) {
    auto host = from_bytes<wire::HelloReply>(message);
    if (!host) return false;
    hello_ = *host;
    told_ = true;
    if (ready_ && listener_.host_changed) listener_.host_changed();
    return true;
  }
  auto event = from_bytes<wire::ExitedEvent>(message);
  if (type != wire::Type::kExited || !event) return false;
  if (listener_.exited) listener_.exited(*event);
  return true;
}

template <class Request>
Task<Result<RunnerClient::WaiterPtr>> RunnerClient::exchange(Request request, wire::Type type,
                                                             Steady::duration limit) {
  if (!connection_) co_return runner_gone("no connection");
  if (waiters_.size() >= kMaxPending) {
    co_return make_error(Code::kUnavailable, "{} requests to the runner are under way", waiters_.size())
        .with_word("capacity");
  }
  std::uint64_t id = next_id_++;
  request.header = wire::Header();
  request.header.type = static_cast<std::uint16_t>(type);
  request.header.id = id;
  auto waiter = std::make_shared<Waiter>(executor_);
  waiters_.emplace(id, waiter);
  if (auto sent = connection_->send(to_bytes(request)); !sent) {
    waiters_.erase(id);
    co_return runner_gone(sent.error().message());
  }
  auto deadline = Steady::now() + limit;
  while (!waiter->complete && !waiter->lost) {
    bool notified = co_await waiter->changed.wait_until(deadline);
    if (!notified && !waiter->complete && !waiter->lost) {
      waiters_.erase(id);
      co_return make_error(Code::kDeadline, "the runner did not answer within {} s",
                           std::chrono::duration_cast<std::chrono::seconds>(limit).count())
          .with_word("runner_slow");
    }
  }
  if (waiter->lost) co_return runner_gone("the connection was lost");
  co_return waiter;
}

template <class Reply, class Request>
Task<Result<Reply>> RunnerClient::call(Request request, wire::Type type, wire::Type reply,
                                       Steady::duration limit) {
  CO_TRY(WaiterPtr waiter, co_await exchange(request, type, limit));
  CO_TRY(Reply answer, from_bytes<Reply>(waiter->replies.front()));
  if (answer.header.type != static_cast<std::uint16_t>(reply)) {
    co_return make_error(Code::kCorrupt, "the runner answered with message type {}", answer.header.type);
  }
  CO_TRY_VOID(check_status(answer.status));
  co_return answer;
}

Task<Result<wire::StartReply>> RunnerClient::start_sandbox(wire::StartRequest request) {
  Steady::duration limit = patient(request.snapshot.str().empty() ? kSlow : kCopy);
  co_return co_await call<wire::StartReply>(request, wire::Type::kStart, wire::Type::kStartReply, limit);
}

// Of whatever generation: the runner may not have heard of the last one.
Task<Result<wire::PauseReply>> RunnerClient::pause_sandbox(std::string sandbox, bool memory, bool in_place) {
  wire::PauseRequest request{};
  request.sandbox.set(sandbox);
  request.memory = memory ? 1 : 0;
  request.in_place = in_place ? 1 : 0;
  co_return co_await call<wire::PauseReply>(request, wire::Type::kPause, wire::Type::kPauseReply,
                                            patient(kSlow));
}

Task<Result<wire::StartReply>> RunnerClient::resume_sandbox(wire::StartRequest request) {
  co_return co_await call<wire::StartReply>(request, wire::Type::kResume, wire::Type::kStartReply,
                                            patient(kSlow));
}

Task<Result<wire::StopReply>> RunnerClient::stop_sandbox(std::string sandbox, std::uint64_t generation) {
  auto request = ref_of(sandbox, generation);
  co_return co_await call<wire::StopReply>(request, wire::Type::kStop, wire::Type::kStopReply,
                                           patient(kSlow));
}

template <class Item>
Task<Result<std::vector<Item>>> RunnerClient::collect(wire::Type type) {
  CO_TRY(WaiterPtr waiter, co_await exchange(wire::Empty(), type, patient(kSlow)));
  std::vector<Item> out;
  for (const std::string& bytes : waiter->replies) {
    CO_TRY(Item item, from_bytes<Item>(bytes));
    CO_TRY_VOID(check_status(item.status));
    if (item.last == 0) out.push_back(item);
  }
  co_return out;
}

Task<Result<std::vector<wire::ListReply>>> RunnerClient::list() {
  co_return co_await collect<wire::ListReply>(wire::Type::kList);
}

Task<Result<wire::StatsReply>> RunnerClient::stats(std::string sandbox, std::uint64_t generation) {
  auto request = ref_of(sandbox, generation);
  co_return co_await call<wire::StatsReply>(request, wire::Type::kStats, wire::Type::kStatsReply,
                                            patient(kQuick));
}

Task<Result<std::vector<std::uint64_t>>> RunnerClient::usage(std::vector<std::string> sandboxes) {
  if (sandboxes.size() > wire::kUsageBatch)
    co_return make_error(Code::kInvalid, "at most {} sandboxes at once", wire::kUsageBatch);
  wire::UsageRequest request{};
  request.count = static_cast<std::uint32_t>(sandboxes.size());
  for (std::size_t i = 0; i < sandboxes.size(); ++i) request.sandbox[i].set(sandboxes[i]);
  CO_TRY(auto reply, co_await call<wire::UsageReply>(request, wire::Type::kUsage, wire::Type::kUsageReply,
                                                     patient(kQuick)));
  co_return std::vector<std::uint64_t>(reply.cpu_us, reply.cpu_us + sandboxes.size());
}

Task<Result<void>> RunnerClient::network(std::string sandbox, std::uint64_t generation,
                                         model::NetworkRules rules) {
  if (rules.allow.size() > model::kMaxNetworkRules || rules.deny.size() > model::kMaxNetworkRules) {
    co_return make_error(Code::kInvalid, "at most {} addresses may be allowed and denied",
                         model::kMaxNetworkRules);
  }
  wire::NetworkRequest request{};
  request.sandbox.set(sandbox);
  request.generation = generation;
  request.internet = rules.internet ? 1 : 0;
  for (const auto& cidr : rules.allow) {
    auto& out = request.allow[request.allow_count++];
    std::copy(cidr.address.begin(), cidr.address.end(), out.address);
    out.prefix = cidr.prefix;
  }
  for (const auto& cidr : rules.deny) {
    auto& out = request.deny[request.deny_count++];
    std::copy(cidr.address.begin(), cidr.address.end(), out.address);
    out.prefix = cidr.prefix;
  }
  CO_TRY_VOID(co_await call<wire::Done>(request, wire::Type::kNetwork, wire::Type::kDone, patient(kQuick)));
  co_return success();
}

Task<Result<void>> RunnerClient::labels(std::string sandbox, std::uint64_t generation, std::size_t count) {
  wire::LabelsRequest request{};
  request.sandbox.set(sandbox);
  request.generation = generation;
  request.count = static_cast<std::uint32_t>(count);
  CO_TRY_VOID(co_await call<wire::Done>(request, wire::Type::kLabels, wire::Type::kDone, patient(kQuick)));
  co_return success();
}

Task<Result<void>> RunnerClient::forget_build(std::string build) {
  wire::BuildRef request{};
  request.build.set(build);
  CO_TRY_VOID(co_await call<wire::Done>(request, wire::Type::kForget, wire::Type::kDone, patient(kQuick)));
  co_return success();
}

Task<Result<wire::SnapshotReply>> RunnerClient::snapshot(std::string sandbox, std::uint64_t generation,
                                                         std::string snapshot, bool memory) {
  wire::SnapshotRequest request{};
  request.memory = memory ? 1 : 0;
  request.sandbox.set(sandbox);
  request.generation = generation;
  request.snapshot.set(snapshot);
  co_return co_await call<wire::SnapshotReply>(request, wire::Type::kSnapshot, wire::Type::kSnapshotReply,
                                               kCopy);
}

Task<Result<void>> RunnerClient::drop_snapshot(std::string snapshot) {
  wire::SnapshotRef request{};
  request.snapshot.set(snapshot);
  CO_TRY_VOID(
      co_await call<wire::Done>(request, wire::Type::kDropSnapshot, wire::Type::kDone, patient(kSlow)));
  co_return success();
}

Task<Result<std::vector<wire::SnapshotListReply>>> RunnerClient::list_snapshots() {
  co_return co_await collect<wire::SnapshotListReply>(wire::Type::kListSnapshots);
}

}  // namespace atl::control
