// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/runner_link.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>

#include "sys/seqpacket.h"

namespace atl::cli {

namespace wire = model::wire;

namespace {
constexpr std::size_t kMaxListed = 65'536;
constexpr timeval kPatience{60, 0};  // for one answer; stopping a sandbox may wait for the kernel

Error from_status(const wire::Status& status) {
  return Error(static_cast<Code>(status.code), status.message.str())
      .with_word(status.word.str())
      .with_hint(status.hint.str());
}
}  // namespace

Result<RunnerLink> RunnerLink::connect(const std::string& run_dir) {
  TRY(sys::Fd socket, sys::seqpacket_connect(run_dir + "/runner.sock"));
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience) != 0) {
    return Error::from_errno(errno, "limit the wait for the runner");
  }
  return RunnerLink(std::move(socket));
}

// Skips events and answers to nobody; the one we wait for has its id, type and exact size.
template <class Reply>
Result<Reply> RunnerLink::receive(std::uint64_t id, wire::Type answer) {
  std::array<std::byte, wire::kMaxMessage> buffer;
  for (;;) {
    TRY(sys::Received received, sys::receive_message(socket_.get(), buffer));
    if (received.size == 0) return make_error(Code::kUnavailable, "the runner closed the connection");
    wire::Header header{};
    if (received.size < sizeof header)
      return make_error(Code::kCorrupt, "the runner sent a message that is too short");
    std::memcpy(&header, buffer.data(), sizeof header);
    if (header.id != id) continue;
    if (header.type != static_cast<std::uint16_t>(answer) || received.size != sizeof(Reply)) {
      return make_error(Code::kCorrupt, "the runner sent an unexpected answer (type {})", header.type)
          .with_hint("runner and command are of different versions; run 'atoll up' of the installed version");
    }
    Reply reply{};
    std::memcpy(&reply, buffer.data(), sizeof reply);
    return reply;
  }
}

template <class Reply, class Request>
Result<Reply> RunnerLink::ask(Request& request, wire::Type type, wire::Type answer) {
  request.header.type = static_cast<std::uint16_t>(type);
  request.header.id = next_id_++;
  TRY_VOID(sys::send_message(socket_.get(), sys::bytes_of(request)));
  return receive<Reply>(request.header.id, answer);
}

Result<wire::HelloReply> RunnerLink::hello() {
  wire::Empty request{};
  TRY(wire::HelloReply reply, (ask<wire::HelloReply>(request, wire::Type::kHello, wire::Type::kHelloReply)));
  if (!reply.status.ok) return from_status(reply.status);
  return reply;
}

Result<std::vector<RunnerLink::Sandbox>> RunnerLink::list() {
  std::vector<Sandbox> out;
  wire::Empty request{};
  TRY(wire::ListReply reply, (ask<wire::ListReply>(request, wire::Type::kList, wire::Type::kListReply)));
  for (;;) {
    if (!reply.status.ok) return from_status(reply.status);
    if (reply.last) return out;
    out.push_back({reply.sandbox.str(), reply.generation});
    if (out.size() > kMaxListed)
      return make_error(Code::kTooLarge, "the runner lists more than {} sandboxes", kMaxListed);
    TRY(reply, receive<wire::ListReply>(request.header.id, wire::Type::kListReply));
  }
}

Result<void> RunnerLink::stop(const Sandbox& sandbox) {
  wire::SandboxRef request{};
  request.sandbox.set(sandbox.id);
  request.generation = sandbox.generation;
  TRY(wire::StopReply reply, (ask<wire::StopReply>(request, wire::Type::kStop, wire::Type::kStopReply)));
  if (reply.status.ok) return success();
  return from_status(reply.status).context("stop " + sandbox.id);
}

}  // namespace atl::cli
