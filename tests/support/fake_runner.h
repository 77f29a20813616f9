// SPDX-License-Identifier: Apache-2.0
//
// FakeRunner: the runner's side of the real wire, with sandboxes that exist only as entries of a map. They
// outlive connections and control, as real ones do. Tests can make it slow, deaf, full or gone.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "async/scope.h"
#include "control/runner_client.h"
#include "model/runner_protocol.h"

namespace atl::test {

namespace wire = model::wire;
using async::Task;

class FakeRunner {
 public:
  struct Entry {
    std::uint64_t generation = 0;
    std::uint64_t owner_epoch = 0;
    std::string build;
    model::Tier tier = model::Tier::kContainer;
    std::uint32_t slot = 0;
    bool alive = true;
    wire::Rest rest = wire::Rest::kRuns;
    model::NetworkRules rules;
  };

  explicit FakeRunner(async::Executor executor)
      : executor_(executor), scope_(executor), released_(executor) {}

  control::RunnerClient::Connect connector() {
    return [this] { return connect(); };
  }
  Task<> stop() {
    disconnect();
    release_held();
    co_await scope_.join();
  }

  // What a test may turn.
  bool down = false;  // connecting fails
  std::uint32_t slots = 10'000;
  std::uint8_t tiers = 1u << static_cast<unsigned>(model::Tier::kContainer);
  std::uint8_t tested_tiers = 0;  // being tested
  std::uint8_t memory_tiers = 0;  // their memory goes to files at a pause
  std::uint8_t quiet_tiers = 0;   // of these: those that do so only while nobody is connected
  std::string not_saved;          // why it does not go there
  model::HostFeatures features{};
  std::uint64_t memory_used = 10 << 20;
  std::uint64_t disk_used = 3 << 20;
  std::map<model::Tier, std::string> obstacles;
  std::set<wire::Type> hold;         // such requests are carried out, but answered only by release_held()
  std::set<wire::Type> ignore;       // such requests are neither carried out nor answered
  std::map<wire::Type, Error> fail;  // such requests are refused
  // After the rules of a sandbox were replaced.
  std::function<void(const std::string& sandbox)> on_network = [](const std::string&) {};

  void release_held() {
    hold.clear();
    released_.notify_all();
  }
  // Serves one connection that was made elsewhere, until it breaks.
  void serve_on(net::SeqPacketPtr connection) {
    connection_ = connection;
    scope_.spawn("fake runner", serve(connection));
  }
  bool connected() const { return connection_ != nullptr; }
  // The connection breaks; sandboxes stay.
  void disconnect() {
    if (connection_) connection_->close();
    connection_.reset();
  }
  // The test of tiers has ended, with this outcome.
  void end_tests(std::uint8_t usable) {
    tiers = usable;
    tested_tiers = 0;
    wire::HelloReply host = hello({});
    host.header.type = static_cast<std::uint16_t>(wire::Type::kHost);
    send(host);
  }
  // PID 1 of the sandbox dies. `tell` = the runner is connected and sees it.
  void die(const std::string& sandbox, std::uint32_t oom_kills = 0, std::int32_t wait_status = 9) {
    auto found = entries.find(sandbox);
    if (found == entries.end() || wire::on_disk(found->second.rest)) return;  // it has none then
    found->second.alive = false;
    if (!connection_) return;
    wire::ExitedEvent event{};
    event.header.type = static_cast<std::uint16_t>(wire::Type::kExited);
    event.sandbox.set(sandbox);
    event.generation = found->second.generation;
    event.wait_status = wait_status;
    event.oom_kills = oom_kills;
    send(event);
  }

  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> copies;    // stored disks: id, and of which sandbox
  std::set<std::string> with_memory;            // ids of copies
  std::vector<std::string> started_from;        // ids of copies, in the order of the starts
  std::size_t restored = 0;                     // starts that went on with memory
  std::size_t most_entries = 0;                 // at one instant
  std::map<std::string, std::uint64_t> cpu_us;  // that a sandbox is said to have used
  std::size_t usages = 0;                       // requests for that
  std::size_t started = 0;
  std::size_t pauses = 0;
  std::size_t resumes = 0;
  std::size_t waiting = 0;  // requests held back now

 private:
  Task<Result<net::SeqPacketPtr>> connect() {
    if (down) co_return make_error(Code::kUnavailable, "no runner is listening");
    auto [mine, theirs] = net::seqpacket_pair(executor_);
    connection_ = mine;
    scope_.spawn("fake runner", serve(mine));
    co_return theirs;
  }

  Task<> serve(net::SeqPacketPtr connection) {
    while (true) {
      auto message = co_await connection->receive(wire::kMaxMessage);
      if (!message || message->empty()) break;
      scope_.spawn("fake request", answer(connection, *message));
    }
    if (connection_ == connection) connection_.reset();
  }

  template <class Message>
  static Message read(const std::string& bytes) {
    Message message{};
    if (bytes.size() != sizeof message) std::abort();
    std::memcpy(&message, bytes.data(), sizeof message);
    return message;
  }

  template <class Message>
  void send(const Message& message) {
    if (!connection_) return;
    (void)connection_->send(std::string(reinterpret_cast<const char*>(&message), sizeof message));
  }

  template <class Reply>
  Reply reply(const wire::Header& to, wire::Type type) {
    Reply out{};
    out.header.type = static_cast<std::uint16_t>(type);
    out.header.id = to.id;
    out.status.ok = 1;
    auto refused = fail.find(static_cast<wire::Type>(to.type));
    if (refused != fail.end()) refuse(out.status, refused->second);
    return out;
  }

  static void refuse(wire::Status& status, const Error& error) {
    status.ok = 0;
    status.code = static_cast<std::uint8_t>(error.code());
    status.word.set(error.word());
    status.message.set(error.message());
    status.hint.set(error.hint());
  }

  Task<> answer(net::SeqPacketPtr from, std::string bytes) {
    auto header = wire::Header();
    std::memcpy(&header, bytes.data(), sizeof header);
    auto type = static_cast<wire::Type>(header.type);
    if (ignore.count(type)) co_return;
    std::vector<std::string> replies = carry_out(type, header, bytes);
    ++waiting;
    while (hold.count(type)) co_await released_.wait();
    --waiting;
    for (auto& text : replies) (void)from->send(std::move(text));
  }

  template <class Message>
  static std::string bytes_of(const Message& message) {
    return std::string(reinterpret_cast<const char*>(&message), sizeof message);
  }

  std::vector<std::string> carry_out(wire::Type type, const wire::Header& header, const std::string& bytes) {
    switch (type) {
      case wire::Type::kHello: return {bytes_of(hello(header))};
      case wire::Type::kStart: return {bytes_of(start(header, read<wire::StartRequest>(bytes)))};
      case wire::Type::kStop: return {bytes_of(stop_one(header, read<wire::SandboxRef>(bytes)))};
      case wire::Type::kPause: return {bytes_of(pause(header, read<wire::PauseRequest>(bytes)))};
      case wire::Type::kResume: return {bytes_of(resume(header, read<wire::StartRequest>(bytes)))};
      case wire::Type::kList: return list(header);
      case wire::Type::kStats: return {bytes_of(stats(header, read<wire::SandboxRef>(bytes)))};
      case wire::Type::kSnapshot: return {bytes_of(snapshot(header, read<wire::SnapshotRequest>(bytes)))};
      case wire::Type::kDropSnapshot: return {bytes_of(drop(header, read<wire::SnapshotRef>(bytes)))};
      case wire::Type::kListSnapshots: return list_copies(header);
      case wire::Type::kUsage: return {bytes_of(usage(header, read<wire::UsageRequest>(bytes)))};
      case wire::Type::kNetwork: return {bytes_of(network(header, read<wire::NetworkRequest>(bytes)))};
      default: return {bytes_of(reply<wire::Done>(header, wire::Type::kDone))};
    }
  }

  wire::HelloReply hello(const wire::Header& header) {
    auto out = reply<wire::HelloReply>(header, wire::Type::kHelloReply);
    out.runner_version.set("fake");
    out.pid = 1;
    out.slots_total = slots;
    out.tiers = tiers;
    out.cgroup_mode = 2;
    out.features = features;
    for (const auto& [tier, why] : obstacles) out.obstacle[static_cast<std::size_t>(tier)].set(why);
    out.disk_snapshot_tiers = tiers;
    out.memory_tiers = memory_tiers;
    out.quiet_tiers = quiet_tiers;
    out.tested_tiers = tested_tiers;
    return out;
  }

  wire::UsageReply usage(const wire::Header& header, const wire::UsageRequest& request) {
    auto out = reply<wire::UsageReply>(header, wire::Type::kUsageReply);
    ++usages;
    for (std::size_t i = 0; i < request.count; ++i) {
      std::string id = request.sandbox[i].str();
      out.cpu_us[i] = entries.contains(id) ? cpu_us[id] : wire::kUsageUnknown;
    }
    return out;
  }

  wire::SnapshotReply snapshot(const wire::Header& header, const wire::SnapshotRequest& request) {
    auto out = reply<wire::SnapshotReply>(header, wire::Type::kSnapshotReply);
    auto found = entries.find(request.sandbox.str());
    bool meant =
        found != entries.end() && (request.generation == 0 || request.generation == found->second.generation);
    if (!meant) refuse(out.status, make_error(Code::kNotFound, "no such sandbox"));
    if (out.status.ok == 0) return out;
    copies[request.snapshot.str()] = request.sandbox.str();
    if (request.memory == 1) with_memory.insert(request.snapshot.str());
    out.disk_bytes = 4096ull << 20;
    out.stored_bytes = 7 << 20;
    return out;
  }

  wire::Done drop(const wire::Header& header, const wire::SnapshotRef& request) {
    auto out = reply<wire::Done>(header, wire::Type::kDone);
    if (out.status.ok == 1) copies.erase(request.snapshot.str());
    return out;
  }

  std::vector<std::string> list_copies(const wire::Header& header) {
    std::vector<std::string> out;
    for (const auto& [id, sandbox] : copies) {
      auto item = reply<wire::SnapshotListReply>(header, wire::Type::kSnapshotListReply);
      item.snapshot.set(id);
      item.stored_bytes = 7 << 20;
      out.push_back(bytes_of(item));
    }
    auto last = reply<wire::SnapshotListReply>(header, wire::Type::kSnapshotListReply);
    last.last = 1;
    out.push_back(bytes_of(last));
    return out;
  }

  wire::StartReply start(const wire::Header& header, const wire::StartRequest& request) {
    auto out = reply<wire::StartReply>(header, wire::Type::kStartReply);
    if (out.status.ok == 0) return out;
    std::string id = request.sandbox.str();
    if (entries.size() >= slots) {
      refuse(out.status, make_error(Code::kUnavailable, "no slot is free").with_word("capacity"));
      return out;
    }
    std::string snapshot = request.snapshot.str();
    if (!snapshot.empty() && !copies.count(snapshot)) {
      refuse(out.status, make_error(Code::kNotFound, "no such snapshot").with_word("snapshot_not_found"));
      return out;
    }
    if (!snapshot.empty()) started_from.push_back(snapshot);
    if (request.memory == 1) ++restored;
    if (entries.count(id)) {
      refuse(out.status, make_error(Code::kExists, "sandbox {} exists", id));
      return out;
    }
    ++started;
    Entry entry;
    entry.generation = request.generation;
    entry.owner_epoch = request.owner_epoch;
    entry.build = request.build.str();
    entry.tier = static_cast<model::Tier>(request.tier);
    entry.slot = static_cast<std::uint32_t>(started);
    entry.rules.internet = request.internet == 1;
    entries[id] = entry;
    count_entries();
    out.slot = entry.slot;
    out.interface.set("fake" + std::to_string(entry.slot));
    out.pid = 1000 + entry.slot;
    out.start_ticks = entry.slot;
    return out;
  }

  void count_entries() {
    auto held = [](const auto& entry) { return !wire::on_disk(entry.second.rest); };
    auto now = static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), held));
    most_entries = std::max(most_entries, now);
  }

  wire::StopReply stop_one(const wire::Header& header, const wire::SandboxRef& request) {
    auto out = reply<wire::StopReply>(header, wire::Type::kStopReply);
    if (out.status.ok == 0) return out;
    auto found = entries.find(request.sandbox.str());
    if (found == entries.end()) {
      refuse(out.status, make_error(Code::kNotFound, "no such sandbox"));
      return out;
    }
    out.was_running = found->second.alive ? 1 : 0;
    entries.erase(found);
    return out;
  }

  std::uint64_t kept_bytes(const Entry& entry) const {
    if (!wire::on_disk(entry.rest)) return 0;
    return disk_used + (entry.rest == wire::Rest::kSaved ? memory_used : 0);
  }

  wire::PauseReply pause(const wire::Header& header, const wire::PauseRequest& request) {
    auto out = reply<wire::PauseReply>(header, wire::Type::kPauseReply);
    if (out.status.ok == 0) return out;
    auto found = entries.find(request.sandbox.str());
    if (found == entries.end()) {
      refuse(out.status, make_error(Code::kNotFound, "no such sandbox"));
      return out;
    }
    Entry& entry = found->second;
    if (!wire::on_disk(entry.rest) || (entry.rest == wire::Rest::kSaved && request.memory == 0)) {
      bool files = (memory_tiers & (1u << static_cast<unsigned>(entry.tier))) != 0 && request.in_place == 0;
      if (files && !not_saved.empty()) {
        files = false;
        out.obstacle.set("nameless_file");
        out.why.set(not_saved);
      }
      wire::Rest kept = files ? wire::Rest::kSaved : wire::Rest::kFrozen;
      entry.rest = request.memory == 1 ? kept : wire::Rest::kStored;
      ++pauses;
    }
    out.rest = entry.rest;
    out.kept_bytes = kept_bytes(entry);
    return out;
  }

  wire::StartReply resume(const wire::Header& header, const wire::StartRequest& request) {
    auto out = reply<wire::StartReply>(header, wire::Type::kStartReply);
    if (out.status.ok == 0) return out;
    auto found = entries.find(request.sandbox.str());
    if (found == entries.end()) {
      refuse(out.status, make_error(Code::kNotFound, "no such sandbox"));
      return out;
    }
    Entry& entry = found->second;
    if (entry.rest == wire::Rest::kStored && request.memory == 1) {
      refuse(out.status, make_error(Code::kConflict, "its memory is gone").with_word("memory_gone"));
      return out;
    }
    if (wire::on_disk(entry.rest)) entry.slot = static_cast<std::uint32_t>(++started);
    entry.rest = wire::Rest::kRuns;
    entry.generation = request.generation;
    ++resumes;
    count_entries();
    out.slot = entry.slot;
    out.interface.set("fake" + std::to_string(entry.slot));
    out.pid = 1000 + entry.slot;
    return out;
  }

  std::vector<std::string> list(const wire::Header& header) {
    std::vector<std::string> out;
    for (const auto& [id, entry] : entries) {
      auto item = reply<wire::ListReply>(header, wire::Type::kListReply);
      item.alive = entry.alive ? 1 : 0;
      item.tier = static_cast<std::uint8_t>(entry.tier);
      item.sandbox.set(id);
      item.generation = entry.generation;
      item.owner_epoch = entry.owner_epoch;
      item.rest = static_cast<std::uint8_t>(entry.rest);
      item.kept_bytes = kept_bytes(entry);
      item.build.set(entry.build);
      item.slot = entry.slot;
      out.push_back(bytes_of(item));
    }
    auto last = reply<wire::ListReply>(header, wire::Type::kListReply);
    last.last = 1;
    out.push_back(bytes_of(last));
    return out;
  }

  wire::StatsReply stats(const wire::Header& header, const wire::SandboxRef& request) {
    auto out = reply<wire::StatsReply>(header, wire::Type::kStatsReply);
    if (!entries.count(request.sandbox.str()))
      refuse(out.status, make_error(Code::kNotFound, "no such sandbox"));
    out.cpu_us = ++ticks_ * 1'000'000;
    out.memory_used = memory_used;
    out.memory_limit = 1120ull << 20;
    out.disk_total = 4096ull << 20;
    return out;
  }

  wire::Done network(const wire::Header& header, const wire::NetworkRequest& request) {
    auto out = reply<wire::Done>(header, wire::Type::kDone);
    auto found = entries.find(request.sandbox.str());
    if (out.status.ok == 0 || found == entries.end()) return out;
    model::NetworkRules rules;
    rules.internet = request.internet == 1;
    for (int i = 0; i < request.allow_count; ++i) rules.allow.push_back(cidr(request.allow[i]));
    for (int i = 0; i < request.deny_count; ++i) rules.deny.push_back(cidr(request.deny[i]));
    found->second.rules = rules;
    on_network(request.sandbox.str());
    return out;
  }

  template <class Rule>
  static model::Cidr cidr(const Rule& rule) {
    model::Cidr out;
    std::copy(std::begin(rule.address), std::end(rule.address), out.address.begin());
    out.prefix = rule.prefix;
    return out;
  }

  async::Executor executor_;
  async::Scope scope_;
  async::Event released_;
  net::SeqPacketPtr connection_;
  std::uint64_t ticks_ = 0;
};

}  // namespace atl::test
