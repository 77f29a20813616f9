// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files that implement Service; not for others.
#pragma once

#include "model/runner_protocol.h"
#include "runner/service.h"

namespace atl::runner {

namespace wire = model::wire;

// An empty reply to a request.
template <class Reply>
Reply reply_to(const wire::Header& request, wire::Type type) {
  Reply reply{};
  reply.header = wire::Header{wire::kMagic, wire::kVersion, static_cast<std::uint16_t>(type), request.id};
  return reply;
}

// Puts the outcome into a reply.
template <class Reply>
Reply finished(Reply reply, const Result<void>& result) {
  reply.status.ok = result.ok() ? 1 : 0;
  if (result.ok()) return reply;
  const Error& error = result.error();
  reply.status.code = static_cast<std::uint8_t>(error.code());
  reply.status.sys_errno = error.sys_errno();
  reply.status.word.set(error.word());
  reply.status.message.set(error.message());
  reply.status.hint.set(error.hint());
  return reply;
}

// The refusal of what must not happen to a sandbox while its disk is copied.
Error being_copied(const std::string& id);
// What is said of a memory that is stored now.
MemoryManifest manifest_of(const Record& record, const Driver& driver);
model::Limits limits_of(const Record& record);  // those that are on record
// What a request may ask for.
Result<void> check(const wire::StartRequest& request);

}  // namespace atl::runner
