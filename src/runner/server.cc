// SPDX-License-Identifier: Apache-2.0
#include "runner/server.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "base/fault.h"
#include "base/log.h"
#include "sys/netlink/netlink.h"
#include "sys/seqpacket.h"

namespace atl::runner {
namespace {

namespace wire = model::wire;

enum Tag : std::uint64_t {
  kListener = 1,
  kConnection,
  kExits,
  kLauncher,
  kSignals,
  kRuleset,
  kHost,
  kAdopted = 1000
};

constexpr int kConnectionBuffer =
    4 << 20;  // of the socket: a thousand replies wait in it when control is busy

// Every reply starts with header and status, so this is read by control whatever it waits for.
void refuse(const Job& job, std::string_view word, std::string_view message) {
  wire::Done reply{};
  std::memcpy(&reply.header, job.bytes.data(), sizeof reply.header);
  reply.header.type = static_cast<std::uint16_t>(wire::Type::kDone);
  reply.status.code = static_cast<std::uint8_t>(Code::kUnavailable);
  reply.status.word.set(word);
  reply.status.message.set(message);
  reply.status.hint.set("try again later");
  job.connection->send(sys::bytes_of(reply));
}

// What holds its sandbox until it is done, perhaps for seconds. Not a copy: a stop breaks that off.
bool occupies(wire::Type type) {
  return type == wire::Type::kStart || type == wire::Type::kPause || type == wire::Type::kResume;
}

// What is done with one sandbox in a moment.
bool is_brief(wire::Type type) {
  return type == wire::Type::kStop || type == wire::Type::kStats || type == wire::Type::kNetwork ||
         type == wire::Type::kLabels;
}

bool makes_something(wire::Type type) { return type == wire::Type::kStart || type == wire::Type::kSnapshot; }

}  // namespace

Lane lane_of(std::span<const std::byte> request) {
  wire::Header header{};
  std::memcpy(&header, request.data(), std::min(sizeof header, request.size()));
  auto type = static_cast<wire::Type>(header.type);
  if (type == wire::Type::kSnapshot || type == wire::Type::kPause) return Lane::kSlow;
  if (type != wire::Type::kStart && type != wire::Type::kResume) return Lane::kQuick;
  wire::StartRequest start{};
  if (request.size() != sizeof start) return Lane::kQuick;
  std::memcpy(&start, request.data(), sizeof start);
  bool quick =
      start.tier == static_cast<std::uint8_t>(model::Tier::kContainer) && start.snapshot.str().empty();
  return quick ? Lane::kQuick : Lane::kSlow;
}

std::size_t request_size(std::uint16_t type) {
  switch (static_cast<wire::Type>(type)) {
    case wire::Type::kHello:
    case wire::Type::kListSnapshots:
    case wire::Type::kList: return sizeof(wire::Empty);
    case wire::Type::kStart:
    case wire::Type::kResume: return sizeof(wire::StartRequest);
    case wire::Type::kPause: return sizeof(wire::PauseRequest);
    case wire::Type::kStop:
    case wire::Type::kStats: return sizeof(wire::SandboxRef);
    case wire::Type::kUsage: return sizeof(wire::UsageRequest);
    case wire::Type::kNetwork: return sizeof(wire::NetworkRequest);
    case wire::Type::kLabels: return sizeof(wire::LabelsRequest);
    case wire::Type::kCapacity: return sizeof(wire::CapacityRequest);
    case wire::Type::kForget: return sizeof(wire::BuildRef);
    case wire::Type::kSnapshot: return sizeof(wire::SnapshotRequest);
    case wire::Type::kDropSnapshot: return sizeof(wire::SnapshotRef);
    default: return 0;
  }
}

void Connection::send(std::span<const std::byte> message) {
  std::lock_guard lock(mutex_);
  if (broken_) return;
  // Never waits: a control that does not read loses its connection, not the runner its threads.
  Result<void> sent = sys::send_message(socket.get(), message, {}, sys::Blocking::kNo);
  if (sent.ok()) return;
  broken_ = true;
  ::shutdown(socket.get(), SHUT_RDWR);
}

void Connection::close() {
  std::lock_guard lock(mutex_);
  broken_ = true;
  ::shutdown(socket.get(), SHUT_RDWR);
}

bool Connection::closed() {
  std::lock_guard lock(mutex_);
  return broken_;
}

Job::Job(ConnectionPtr from, std::span<const std::byte> request)
    : connection(std::move(from)), bytes{}, size(request.size()), arrived(Steady::now()) {
  std::memcpy(bytes.data(), request.data(), request.size());
}

wire::Type Job::type() const {
  wire::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return static_cast<wire::Type>(header.type);
}

std::string Job::sandbox() const {
  constexpr std::size_t kPlace = offsetof(wire::SandboxRef, sandbox);
  static_assert(
      offsetof(wire::StartRequest, sandbox) == kPlace && offsetof(wire::PauseRequest, sandbox) == kPlace &&
      offsetof(wire::NetworkRequest, sandbox) == kPlace && offsetof(wire::LabelsRequest, sandbox) == kPlace &&
      offsetof(wire::SnapshotRequest, sandbox) == kPlace);
  wire::SandboxRef ref;
  std::memcpy(&ref, bytes.data(), sizeof ref);
  return ref.sandbox.str();
}

JobQueue::Put JobQueue::put(Job job, std::vector<Job>& called_off) {
  std::lock_guard lock(mutex_);
  if (job.type() == wire::Type::kStop) {
    std::string id = job.sandbox();
    for (auto& queue : queues_) {
      auto meant = [&](const Job& other) {
        return other.type() == wire::Type::kStart && other.sandbox() == id;
      };
      std::copy_if(queue.begin(), queue.end(), std::back_inserter(called_off), meant);
      std::erase_if(queue, meant);
    }
  }
  auto lane = static_cast<std::size_t>(lane_of(job.request()));
  if (queues_[lane].size() >= max_) return Put::kFull;
  queues_[lane].push_back(std::move(job));
  work_[lane].notify_one();
  return Put::kTaken;
}

std::optional<Job> JobQueue::take(Lane lane) {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (std::optional<Job> job = next(lane)) return job;
    work_[static_cast<std::size_t>(lane)].wait(lock);
  }
  return std::nullopt;
}

// The first that need not wait for another.
std::optional<Job> JobQueue::next(Lane lane) {
  auto& queue = queues_[static_cast<std::size_t>(lane)];
  auto waits = [this](const Job& job) { return is_brief(job.type()) && busy_.contains(job.sandbox()); };
  while (true) {
    auto found = std::find_if_not(queue.begin(), queue.end(), waits);
    if (found == queue.end()) return std::nullopt;
    Job job = std::move(*found);
    queue.erase(found);
    if (makes_something(job.type()) && job.connection->closed()) {
      log::info("not begun: who asked for it is gone", {{"id", job.sandbox()}});
      continue;
    }
    if (occupies(job.type())) busy_.insert(job.sandbox());
    return job;
  }
}

void JobQueue::done(const Job& job) {
  if (!occupies(job.type())) return;
  std::lock_guard lock(mutex_);
  busy_.erase(busy_.find(job.sandbox()));
  work_[static_cast<std::size_t>(Lane::kQuick)].notify_all();
}

void JobQueue::end() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  for (auto& lane : work_) lane.notify_all();
}

Server::Server(ServerOptions options, Service& service, Launcher& launcher, Firewall& firewall)
    : options_(std::move(options)),
      service_(service),
      launcher_(launcher),
      firewall_(firewall),
      host_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      jobs_(options_.max_queue) {}

Server::~Server() {
  jobs_.end();
  for (std::thread& worker : workers_) worker.join();
  if (listener_) ::unlink(options_.socket.c_str());
}

Result<void> Server::watch(int fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return Error::from_errno(errno, "watch a descriptor");
  return success();
}

Result<void> Server::open() {
  epoll_ = sys::Fd(::epoll_create1(EPOLL_CLOEXEC));
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  signals_ = sys::Fd(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!epoll_ || !signals_ || !host_) return Error::from_errno(errno, "make the server's descriptors");
  TRY(listener_, sys::seqpacket_listen(options_.socket, 0660, options_.control_gid, 8));
  TRY(ruleset_, sys::watch_firewall());
  TRY_VOID(watch(listener_.get(), kListener));
  TRY_VOID(watch(signals_.get(), kSignals));
  TRY_VOID(watch(launcher_.exits(), kExits));
  TRY_VOID(watch(launcher_.pidfd(), kLauncher));
  TRY_VOID(watch(ruleset_.get(), kRuleset));
  TRY_VOID(watch(host_.get(), kHost));
  adopted_ = service_.adopted();
  for (const auto& [launch_id, pidfd] : adopted_) TRY_VOID(watch(pidfd.get(), kAdopted + launch_id));
  for (std::size_t i = 0; i < options_.workers; ++i) {
    for (Lane lane : {Lane::kQuick, Lane::kSlow}) workers_.emplace_back([this, lane] { work(lane); });
  }
  return success();
}

Result<void> Server::run() {
  TRY_VOID(open());
  log::info("runner ready", {{"socket", options_.socket}, {"sandboxes", service_.count()}});
  for (;;) {
    epoll_event event{};
    int n = ::epoll_wait(epoll_.get(), &event, 1, -1);
    if (n < 0 && errno != EINTR) return Error::from_errno(errno, "wait for events");
    if (n <= 0) continue;
    switch (event.data.u64) {
      case kListener: accept_connection(); break;
      case kConnection: read_request(); break;
      case kExits: read_exit(); break;
      case kLauncher: return make_error(Code::kUnavailable, "the launcher is gone");
      case kSignals: return success();
      case kRuleset: firewall_changed(); break;
      case kHost: tell_host(); break;
      default: adopted_ended(event.data.u64 - kAdopted);
    }
  }
}

void Server::accept_connection() {
  sys::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  Result<sys::Peer> peer = sys::peer_of(socket.get());
  if (!peer.ok() || (peer->uid != 0 && peer->uid != options_.control_uid)) {
    log::warn("refused a connection",
              {{"uid", peer.ok() ? peer->uid : 0}, {"pid", peer.ok() ? peer->pid : 0}});
    return;
  }
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kConnectionBuffer, sizeof kConnectionBuffer);
  close_connection();  // a newer control replaces the older one
  connection_ = std::make_shared<Connection>(std::move(socket));
  if (!watch(connection_->socket.get(), kConnection).ok()) connection_.reset();
}

void Server::close_connection() {
  if (!connection_) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection_->socket.get(), nullptr);
  connection_->close();
  connection_.reset();
}

void Server::read_request() {
  std::array<std::byte, wire::kMaxMessage> buffer;
  Result<sys::Received> received =
      sys::receive_message(connection_->socket.get(), buffer, sys::Blocking::kNo);
  if (!received.ok() && received.error().sys_errno() == EAGAIN) return;
  wire::Header header{};
  bool whole = received.ok() && !received->truncated && received->size >= sizeof header;
  if (whole) std::memcpy(&header, buffer.data(), sizeof header);
  bool good = whole && header.magic == wire::kMagic && header.version == wire::kVersion && header.id != 0 &&
              received->fds.empty() && received->size == request_size(header.type);
  if (!good) {
    if (received.ok() && received->size > 0)
      log::warn("malformed request; connection closed", {{"type", header.type}});
    return close_connection();
  }
  enqueue(std::span(buffer).first(received->size));
}

void Server::enqueue(std::span<const std::byte> bytes) {
  Job job(connection_, bytes);
  std::vector<Job> called_off;
  JobQueue::Put put = jobs_.put(job, called_off);
  for (const Job& start : called_off)
    refuse(start, "create_failed", fmt::format("sandbox {} was stopped before its start", start.sandbox()));
  if (put == JobQueue::Put::kFull) refuse(job, "runner_busy", "too many requests wait in the runner");
}

void Server::work(Lane lane) {
  while (std::optional<Job> job = jobs_.take(lane)) {
    service_.handle(job->request(), job->arrived,
                    [&job](std::span<const std::byte> reply) { job->connection->send(reply); });
    jobs_.done(*job);
  }
}

void Server::read_exit() {
  LaunchExit report{};
  Result<sys::Received> received = sys::receive_message(
      launcher_.exits(), std::as_writable_bytes(std::span<LaunchExit, 1>(&report, 1)), sys::Blocking::kNo);
  if (!received.ok() || received->size != sizeof report) return;  // its pidfd tells when the launcher is dead
  announce(service_.exited(report.launch_id, report.wait_status));
}

void Server::adopted_ended(std::uint64_t launch_id) {
  auto ended = adopted_.find(launch_id);
  if (ended == adopted_.end()) return;
  // KERNEL: closing would not end the watch while the service holds a copy of the descriptor (epoll(7)).
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ended->second.get(), nullptr);
  adopted_.erase(ended);
  announce(service_.exited(launch_id, -1));
}

void Server::announce(const std::optional<wire::ExitedEvent>& event) {
  if (!event) return;
  log::info("sandbox ended by itself", {{"id", event->sandbox.str()}, {"status", event->wait_status}});
  if (connection_) connection_->send(sys::bytes_of(*event));
}

void Server::host_changed() {
  std::uint64_t one = 1;
  if (::write(host_.get(), &one, sizeof one) != sizeof one)
    log::error("control is not told of a change of the host");
}

void Server::tell_host() {
  std::uint64_t changes = 0;
  if (::read(host_.get(), &changes, sizeof changes) != sizeof changes || !connection_) return;
  wire::HelloReply host = service_.hello();
  host.header.type = static_cast<std::uint16_t>(wire::Type::kHost);
  connection_->send(sys::bytes_of(host));
}

void Server::firewall_changed() {
  sys::drain_firewall_events(ruleset_.get());
  Result<bool> repaired = firewall_.repair();
  if (!repaired.ok()) {
    log::error("egress rules are gone and cannot be put back", {{"error", repaired.error().message()}});
  } else if (*repaired) {
    log::warn("somebody changed the egress rules; put back");
  }
}

}  // namespace atl::runner
