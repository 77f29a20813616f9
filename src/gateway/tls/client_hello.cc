// SPDX-License-Identifier: Apache-2.0
#include "gateway/tls/client_hello.h"

#include <algorithm>

#include "base/text.h"
#include "gateway/names/host.h"

namespace atl::gateway {
namespace {

constexpr std::uint8_t kHandshake = 22, kClientHello = 1;
constexpr std::size_t kRecordHead = 5, kMessageHead = 4, kMaxRecord = 1 << 14, kRandomBytes = 32;
constexpr std::uint16_t kServerName = 0, kAlpn = 16, kPreSharedKey = 41, kSupportedVersions = 43,
                        kEch = 0xfe0d;

using Reason = std::string_view;
constexpr Reason kFine;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }
std::uint16_t word_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(byte_at(bytes, at) << 8 | byte_at(bytes, at + 1));
}

// Takes values off the front. After a failure it is empty and stays failed.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    auto out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  std::uint8_t byte() {
    auto one = take(1);
    return one.empty() ? 0 : byte_at(one, 0);
  }
  std::uint16_t word() {
    auto two = take(2);
    return two.empty() ? 0 : word_at(two, 0);
  }
  std::string_view short_block() { return take(byte()); }  // a length of one byte, and as many bytes
  std::string_view block() { return take(word()); }
  bool failed() const { return failed_; }
  bool empty() const { return rest_.empty(); }
  bool whole() const { return rest_.empty() && !failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

bool is_placeholder(std::uint16_t value) {
  return (value & 0x0f0f) == 0x0a0a && value >> 8 == (value & 0xff);
}

Reason read_server_name(std::string_view body, ClientHello& out) {
  Cursor outer(body);
  Cursor list(outer.block());
  if (!outer.whole()) return "the server name extension has a wrong length";
  if (list.byte() != 0) return "the server name is not a host name";
  auto name = list.block();
  if (list.failed()) return "the server name has a wrong length";
  if (!list.empty()) return "there are two server names";
  auto host = parse_host(name);
  if (!host.ok() || host->is_address() || host->name() != to_lower(name))
    return "the server name is not a DNS name in its plain spelling";
  out.sni = host->name();
  return kFine;
}

Reason read_alpn(std::string_view body, ClientHello& out) {
  Cursor outer(body);
  Cursor list(outer.block());
  if (!outer.whole() || list.empty()) return "the list of protocols has a wrong length";
  while (!list.empty()) {
    auto protocol = list.short_block();
    if (list.failed() || protocol.empty()) return "a protocol's name has a wrong length";
    out.alpn.emplace_back(protocol);
  }
  return kFine;
}

Reason read_versions(std::string_view body, ClientHello& out) {
  Cursor outer(body);
  Cursor list(outer.short_block());
  if (!outer.whole() || list.empty()) return "the list of versions has a wrong length";
  out.versions.clear();
  while (!list.empty()) {
    auto version = list.word();
    if (list.failed()) return "the list of versions has a wrong length";
    if (!is_placeholder(version)) out.versions.push_back(version);
  }
  return kFine;
}

Reason read_extension(std::uint16_t type, std::string_view body, ClientHello& out) {
  switch (type) {
    case kServerName: return read_server_name(body, out);
    case kAlpn: return read_alpn(body, out);
    case kSupportedVersions: return read_versions(body, out);
    case kEch: out.ech = true; return kFine;
    default: return kFine;
  }
}

Reason read_extensions(std::string_view bytes, ClientHello& out) {
  Cursor list(bytes);
  std::vector<std::uint16_t> seen;
  while (!list.empty()) {
    auto type = list.word();
    auto body = list.block();
    if (list.failed()) return "an extension has a wrong length";
    if (type == kPreSharedKey && !list.empty()) return "the pre-shared key is not the last extension";
    seen.push_back(type);
    auto reason = read_extension(type, body, out);
    if (!reason.empty()) return reason;
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) return "an extension comes twice";
  return kFine;
}

Reason read_message(std::string_view body, ClientHello& out) {
  Cursor in(body);
  auto version = in.word();
  in.take(kRandomBytes);
  auto session = in.short_block();
  auto ciphers = in.block();
  auto compressions = in.short_block();
  if (in.failed()) return "it ends too early";
  if (version >> 8 != 3) return "its version is unknown";
  if (session.size() > 32) return "the session id is too long";
  if (ciphers.empty() || ciphers.size() % 2 != 0) return "the list of ciphers has a wrong length";
  if (compressions.find('\0') == std::string_view::npos) return "it demands compression";
  out.versions = {version};
  if (in.empty()) return kFine;  // TLS 1.2 without extensions
  auto extensions = in.block();
  if (!in.whole()) return "the extensions have a wrong length";
  return read_extensions(extensions, out);
}

HelloResult broken(Reason reason) { return {HelloState::kBroken, {}, reason}; }

// The handshake bytes of all whole and begun records, or a state that ends the reading.
struct Joined {
  HelloState state = HelloState::kNeedMore;
  std::string message;  // beginning with the message's head
  bool at_record_end = false;
  Reason reason;
};

// Whole message there: 4 bytes of head and as many as they say.
bool complete(const std::string& message, std::size_t& length) {
  if (message.size() < kMessageHead) return false;
  length = kMessageHead + (static_cast<std::size_t>(byte_at(message, 1)) << 16 | word_at(message, 2));
  return message.size() >= length;
}

Joined join_records(std::string_view received) {
  Joined out;
  std::size_t length = 0;
  while (!received.empty()) {
    bool first = out.message.empty();
    auto other = first ? HelloState::kNotTls : HelloState::kBroken;
    if (byte_at(received, 0) != kHandshake) return {other, {}, false, "another record interrupts it"};
    if (received.size() > 1 && byte_at(received, 1) != 3)
      return {other, {}, false, "a record has an unknown version"};
    if (received.size() < kRecordHead) return out;
    std::size_t size = word_at(received, 3);
    if (size == 0 || size > kMaxRecord)
      return {HelloState::kBroken, {}, false, "a record has a wrong length"};
    auto part = received.substr(kRecordHead, size);
    out.message.append(part);
    if (!out.message.empty() && byte_at(out.message, 0) != kClientHello)
      return {HelloState::kBroken, {}, false, "the first message is not a ClientHello"};
    if (complete(out.message, length)) {
      out.at_record_end = out.message.size() == length && part.size() == size;
      out.state = HelloState::kParsed;
      if (!out.at_record_end) out.reason = "something follows it in its record";
      return out;
    }
    if (length > kMaxHelloBytes) return {HelloState::kBroken, {}, false, "it is larger than 16 KiB"};
    received.remove_prefix(std::min(received.size(), kRecordHead + size));
  }
  return out;
}

}  // namespace

HelloResult read_client_hello(std::string_view received) {
  Joined joined = join_records(received.substr(0, kMaxHelloBytes));
  if (joined.state == HelloState::kNotTls) return {HelloState::kNotTls, {}, {}};
  if (joined.state == HelloState::kBroken) return broken(joined.reason);
  if (joined.state == HelloState::kNeedMore) {
    if (received.size() >= kMaxHelloBytes) return broken("it is larger than 16 KiB");
    return {};
  }
  if (!joined.at_record_end) return broken(joined.reason);
  HelloResult out{HelloState::kParsed, {}, {}};
  auto reason = read_message(std::string_view(joined.message).substr(kMessageHead), out.hello);
  if (!reason.empty()) return broken(reason);
  return out;
}

}  // namespace atl::gateway
