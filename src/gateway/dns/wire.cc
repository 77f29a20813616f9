// SPDX-License-Identifier: Apache-2.0
#include "gateway/dns/wire.h"

#include <algorithm>

#include "base/check.h"
#include "gateway/names/host.h"

namespace atl::gateway::dns {
namespace {

constexpr std::size_t kHead = 12, kMaxLabel = 63, kMaxName = 255;
constexpr std::uint16_t kClassIn = 1;
constexpr std::uint16_t kIsAnswer = 0x8000, kOpcode = 0x7800, kTruncated = 0x0200, kRecursionDesired = 0x0100,
                        kRecursionAvailable = 0x0080, kCheckingDisabled = 0x0010;
constexpr std::uint16_t kOurUdpBytes = 1232;
constexpr std::uint16_t kPointToQuestion = 0xc000 | kHead;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }
std::uint16_t word_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(byte_at(bytes, at) << 8 | byte_at(bytes, at + 1));
}

void put_word(std::string& out, std::uint32_t value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}

void put_long(std::string& out, std::uint32_t value) {
  put_word(out, value >> 16);
  put_word(out, value & 0xffff);
}

bool is_host_label(std::string_view label) {
  return std::all_of(label.begin(), label.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// A name on the wire: how long it is, and its text when it is one of a host. A label may hold any byte, also
// a dot, so labels are looked at before they are joined.
struct WireName {
  std::size_t bytes = 0;
  std::optional<std::string> name;
};

std::optional<WireName> read_name(std::string_view rest) {
  std::string text;
  bool host = true;
  std::size_t at = 0;
  while (true) {
    if (at >= rest.size()) return std::nullopt;
    std::size_t length = byte_at(rest, at++);
    if (length == 0) break;
    if (length > kMaxLabel || at + length > rest.size() || at + length >= kMaxName) return std::nullopt;
    auto label = rest.substr(at, length);
    host &= is_host_label(label);
    text += text.empty() ? "" : ".";
    text += label;
    at += length;
  }
  WireName out{.bytes = at, .name = std::nullopt};
  auto read = host ? parse_host(text) : Result<Host>(Error(Code::kInvalid, ""));
  if (read.ok() && !read->is_address()) out.name = read->name();
  return out;
}

// The OPT record, alone at the end.
std::optional<Rcode> read_opt(std::string_view rest, Query& query) {
  constexpr std::size_t kOptHead = 11;
  if (rest.size() < kOptHead || rest[0] != 0 || word_at(rest, 1) != kTypeOpt) return Rcode::kFormErr;
  if (rest.size() != kOptHead + word_at(rest, 9)) return Rcode::kFormErr;
  query.edns = true;
  query.udp_bytes = std::max<std::uint16_t>(word_at(rest, 3), 512);
  if (rest[6] != 0) return Rcode::kBadVersion;
  return std::nullopt;
}

std::optional<Rcode> read_body(std::string_view message, Query& query) {
  if (word_at(message, 2) & kTruncated) return Rcode::kFormErr;
  if (word_at(message, 4) != 1 || word_at(message, 6) != 0 || word_at(message, 8) != 0 ||
      word_at(message, 10) > 1)
    return Rcode::kFormErr;
  auto rest = message.substr(kHead);
  auto name = read_name(rest);
  if (!name || rest.size() < name->bytes + 4) return Rcode::kFormErr;
  query.question = rest.substr(0, name->bytes + 4);
  query.name = std::move(name->name);
  query.type = word_at(rest, name->bytes);
  if (word_at(rest, name->bytes + 2) != kClassIn) return Rcode::kRefused;
  rest.remove_prefix(name->bytes + 4);
  if (word_at(message, 10) == 1) return read_opt(rest, query);
  if (!rest.empty()) return Rcode::kFormErr;
  return std::nullopt;
}

}  // namespace

std::optional<Incoming> read_query(std::string_view message) {
  if (message.size() < kHead || message.size() > kMaxQueryBytes) return std::nullopt;
  auto flags = word_at(message, 2);
  if (flags & kIsAnswer) return std::nullopt;
  Incoming out;
  out.query.id = word_at(message, 0);
  out.query.recursion_desired = (flags & kRecursionDesired) != 0;
  out.query.checking_disabled = (flags & kCheckingDisabled) != 0;
  out.error = (flags & kOpcode) != 0 ? Rcode::kNotImp : read_body(message, out.query);
  return out;
}

std::string write_answer(const Query& query, const Answer& answer) {
  bool tell = answer.rcode == Rcode::kNoError && !answer.truncated && query.type == kTypeA && answer.address;
  CHECK(!tell || answer.address->is_v4(), "an A record for {}", answer.address->text());
  auto code = static_cast<std::uint16_t>(answer.rcode);
  std::string out;
  put_word(out, query.id);
  unsigned flags = kIsAnswer | kRecursionAvailable | (code & 0xfu);
  if (answer.truncated) flags |= kTruncated;
  if (query.recursion_desired) flags |= kRecursionDesired;
  if (query.checking_disabled) flags |= kCheckingDisabled;
  put_word(out, flags);
  put_word(out, query.question.empty() ? 0 : 1);
  put_word(out, tell ? 1 : 0);
  put_word(out, 0);
  put_word(out, query.edns ? 1 : 0);
  out += query.question;
  if (tell) {
    put_word(out, kPointToQuestion);
    put_word(out, kTypeA);
    put_word(out, kClassIn);
    put_long(out, answer.ttl_seconds);
    put_word(out, 4);
    put_long(out, answer.address->v4_value());
  }
  if (query.edns) {
    out += '\0';
    put_word(out, kTypeOpt);
    put_word(out, kOurUdpBytes);
    put_long(out, static_cast<std::uint32_t>(code >> 4) << 24);
    put_word(out, 0);
  }
  return out;
}

std::string frame(std::string_view message) {
  CHECK(message.size() <= 0xffff, "a message of {} bytes", message.size());
  std::string out;
  put_word(out, static_cast<std::uint32_t>(message.size()));
  return out.append(message);
}

std::optional<std::string_view> first_framed(std::string_view received) {
  if (received.size() < kFrameHead) return std::nullopt;
  std::size_t size = word_at(received, 0);
  if (received.size() < kFrameHead + size) return std::nullopt;
  return received.substr(kFrameHead, size);
}

}  // namespace atl::gateway::dns
