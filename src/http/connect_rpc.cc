// SPDX-License-Identifier: Apache-2.0
#include "http/connect_rpc.h"

#include "base/memory.h"
#include "base/text.h"

namespace atl::http::connect {

namespace {
constexpr std::size_t kPrefix = 5;  // one byte of flags, four of length
// Bytes already taken are dropped from the buffer's front once there are this many, so that dropping stays
// cheap.
constexpr std::size_t kCompactAt = 64 * 1024;
}  // namespace

std::string_view rpc_code(Code code) {
  switch (code) {
    case Code::kInvalid: return "invalid_argument";
    case Code::kUnauthenticated: return "unauthenticated";
    case Code::kDenied: return "permission_denied";
    case Code::kNotFound: return "not_found";
    case Code::kConflict: return "failed_precondition";
    case Code::kExists: return "already_exists";
    case Code::kTooLarge:
    case Code::kExhausted:
    case Code::kNoSpace: return "resource_exhausted";
    case Code::kCancelled: return "canceled";
    case Code::kInternal: return "internal";
    case Code::kUnsupported: return "unimplemented";
    case Code::kUnavailable: return "unavailable";
    case Code::kDeadline: return "deadline_exceeded";
    case Code::kCorrupt: return "data_loss";
  }
  return "unknown";
}

int rpc_status(std::string_view rpc_code) {
  struct Row {
    std::string_view name;
    int status;
  };
  // https://connectrpc.com/docs/protocol#error-codes, with the one table that the clients' tests use.
  static constexpr Row kRows[] = {
      {"invalid_argument", 400},   {"failed_precondition", 400},
      {"out_of_range", 400},       {"unauthenticated", 401},
      {"permission_denied", 403},  {"not_found", 404},
      {"already_exists", 409},     {"aborted", 409},
      {"resource_exhausted", 429}, {"canceled", 499},
      {"unimplemented", 501},      {"unavailable", 503},
      {"deadline_exceeded", 504},
  };
  for (const auto& row : kRows) {
    if (row.name == rpc_code) return row.status;
  }
  return 500;
}

std::string envelope(std::string_view json, std::uint8_t flags) {
  auto size = static_cast<std::uint32_t>(json.size());
  std::string out;
  out.reserve(kPrefix + json.size());
  out += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((size >> shift) & 0xff);
  out += json;
  return out;
}

std::string error_json(const Error& error) {
  return fmt::format(R"({{"code":"{}","message":{}}})", rpc_code(error.code()), json_quote(error.message()));
}

std::string end_stream(const Error* error) {
  if (error == nullptr) return envelope("{}", kEndStream);
  return envelope(fmt::format(R"({{"error":{}}})", error_json(*error)), kEndStream);
}

Result<std::optional<EnvelopeReader::Envelope>> EnvelopeReader::next() {
  auto rest = std::string_view(buffer_).substr(start_);
  if (rest.size() < kPrefix) return std::optional<Envelope>();
  std::uint32_t size = 0;
  for (std::size_t i = 1; i < kPrefix; ++i) size = size << 8 | static_cast<unsigned char>(rest[i]);
  if (size > max_)
    return make_error(Code::kTooLarge, "message of {} bytes; at most {} are accepted", size, max_);
  if (rest.size() - kPrefix < size) return std::optional<Envelope>();

  Envelope out{static_cast<std::uint8_t>(rest[0]), std::string(rest.substr(kPrefix, size))};
  start_ += kPrefix + size;
  if (start_ == buffer_.size()) {
    // One huge message must not keep its memory for the rest of a long stream.
    if (buffer_.capacity() > kCompactAt) free_text(buffer_);
    buffer_.clear();
    start_ = 0;
  } else if (start_ >= kCompactAt) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  return std::optional<Envelope>(std::move(out));
}

}  // namespace atl::http::connect
