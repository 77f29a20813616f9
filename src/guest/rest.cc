// SPDX-License-Identifier: Apache-2.0
#include "guest/rest.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/log.h"
#include "guest/connections.h"
#include "guest/json.h"
#include "guest/limits.h"
#include "guest/posix.h"
#include "guest/state.h"

namespace atl::guest {
namespace {

constexpr Millis kCloseGrace{300};  // for connections that are being closed
constexpr Millis kCloseLook{10};
constexpr Millis kSettleGrace{1'000};  // for batches to tell how the steps ended whose processes have
constexpr Millis kStopGrace{3'000};    // from SIGTERM to the end, before a pause that keeps only the disk

// Work of another thread.
struct WriteOut {
  std::string path;
  Result<void> operator()() const {
    Fd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root || ::syncfs(root.get()) != 0)
      return Error::from_errno(errno, fmt::format("write {} out", path));
    return {};
  }
};

struct FreezeRequest {
  bool stop = false;
  bool sync = true;
  bool outside = false;  // the answer says how many connections lead out of the sandbox
};

Result<FreezeRequest> parse_freeze(std::string_view text) {
  FreezeRequest out;
  if (text.empty()) return out;
  TRY(auto message, parse_message(text));
  Fields fields(message);
  out.stop = fields.boolean("stop");
  out.sync = fields.boolean("sync", true);
  out.outside = fields.boolean("outside");
  if (fields.failure()) return *fields.failure();
  return out;
}

Task<Result<void>> write_out(Guest& guest) {
  WriteOut work{::getpid() == 1 ? "/" : guest.options.run_directory};
  co_return co_await guest.file_workers.run(work);
}

// Work of another thread: in a machine of its own, the first program brings the disk to rest.
struct SettleDisk {
  int fd;
  Result<void> operator()() const {
    char failed = 1;
    if (::write(fd, "", 1) != 1 || ::read(fd, &failed, 1) != 1 || failed != 0)
      return make_error(Code::kUnavailable, "the disk did not come to rest");
    return {};
  }
};

// Nothing to do where this host mounts the disk: the runner does it.
Task<Result<void>> settle_disk(Guest& guest) {
  if (guest.options.boot.settle_fd <= 0) co_return success();
  SettleDisk work{guest.options.boot.settle_fd};
  co_return co_await guest.file_workers.run(work);
}

// Those that the other side has closed take a moment to go.
Task<std::size_t> count_outside(Guest& guest) {
  auto until = Steady::now() + kCloseGrace;
  while (true) {
    std::size_t count = co_await guest.file_workers.run([] { return outside_connections(); });
    if (count == 0 || Steady::now() >= until) co_return count;
    co_await async::sleep_for(kCloseLook);
  }
}

// Asks each process to end, and waits for those that do; the runner ends the others.
Task<> end_processes(Guest& guest) {
  auto until = Steady::now() + kStopGrace;
  for (const ProcessPtr& process : guest.processes.alive()) (void)process->send_signal(SIGTERM);
  while (Steady::now() < until) {
    auto alive = guest.processes.alive();
    if (alive.empty()) co_return;
    co_await alive.front()->changed().wait_until(until);
  }
}

}  // namespace

Rest::Stay::Stay(Rest& rest, std::function<void()> wake)
    : rest_(rest), wake_(std::move(wake)), place_(rest.streams_.insert(rest.streams_.end(), this)) {}

Rest::Stay::~Stay() { rest_.streams_.erase(place_); }

void Rest::end_streams() {
  for (Stay* stream : streams_) {
    stream->due_ = true;
    stream->wake_();
  }
}

Error pausing_error(std::string_view hint) {
  return make_error(Code::kUnavailable, "the sandbox is being paused; {}", hint).with_word("sandbox_paused");
}

// The environment may hold secrets, so control does not store it; the workload has it already. It lies on the
// disk from the first moment on, and stays there: whatever dies during a pause or resume, the next boot has
// it.
void keep_environment(const std::string& path, const std::map<std::string, std::string>& environment) {
  ::unlink(path.c_str());  // also that of the sandbox whose disk this is a copy of
  if (path.empty() || environment.empty()) return;
  auto written = write_small_file(path, R"({"envs":)" + text_map_json(environment) + "}", 0600);
  if (!written.ok()) log::warn("the environment is not kept", {{"why", written.error().message()}});
}

std::map<std::string, std::string> kept_environment(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return {};
  auto text = read_small_file(path, kMaxInitBytes);
  Result<boost::json::object> message =
      text.ok() ? parse_message(*text) : Result<boost::json::object>(text.error());
  if (!message.ok()) {
    log::warn("the environment was not kept", {{"why", message.error().message()}});
    return {};
  }
  Fields fields(*message);
  auto environment = fields.text_map("envs", kMaxVariables);
  return fields.failure() ? std::map<std::string, std::string>() : environment;
}

Task<> serve_freeze(Guest& guest, Exchange& exchange) {
  auto text = co_await exchange.read_all(kMaxInitBytes);
  Result<FreezeRequest> request = text.ok() ? parse_freeze(*text) : Result<FreezeRequest>(text.error());
  if (!request.ok()) {
    co_await respond_error(exchange, request.error());
    co_return;
  }
  guest.rest.end_streams();
  guest.processes.hold_clocks();
  if (request->stop) {
    guest.batches.hold();
    co_await end_processes(guest);
    co_await guest.batches.settle(Steady::now() + kSettleGrace);
  }
  Result<void> written = success();
  if (request->sync) written = co_await write_out(guest);
  if (written.ok() && request->stop) written = co_await settle_disk(guest);
  if (!written.ok()) {
    co_await respond_error(exchange, written.error());
    co_return;
  }
  if (request->outside) {
    std::size_t count = co_await count_outside(guest);
    ObjectWriter out;
    out.number("outside", static_cast<std::int64_t>(count));
    co_await respond_json(exchange, 200, std::move(out).finish());
    co_return;
  }
  http::ResponseHead head;
  head.status = 204;
  co_await respond(exchange, std::move(head), "");
}

}  // namespace atl::guest
