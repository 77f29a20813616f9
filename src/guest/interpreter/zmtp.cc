// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/zmtp.h"

#include <algorithm>

#include "guest/interpreter/limits.h"

namespace atl::guest::interpreter::zmtp {
namespace {

constexpr std::size_t kGreetingBytes = 64;
constexpr std::uint8_t kMore = 1, kLong = 2, kCommand = 4;
constexpr std::size_t kMaxCommand = 4 * kKiB;
constexpr std::size_t kReadStep = 64 * kKiB;

void put_big_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void put_frame(std::string& out, std::uint8_t flags, std::string_view body) {
  bool wide = body.size() > 255;
  out.push_back(static_cast<char>(flags | (wide ? kLong : 0)));
  put_big_endian(out, body.size(), wide ? 8 : 1);
  out.append(body);
}

void put_property(std::string& out, std::string_view name, std::string_view value) {
  out.push_back(static_cast<char>(name.size()));
  out.append(name);
  put_big_endian(out, value.size(), 4);
  out.append(value);
}

}  // namespace

std::string greeting() {
  std::string out("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
  out.resize(kGreetingBytes, '\0');
  return out;
}

std::string ready(Type type) {
  std::string body("\x05READY");
  put_property(body, "Socket-Type", type == Type::kDealer ? "DEALER" : "SUB");
  if (type == Type::kDealer) put_property(body, "Identity", "");
  std::string out;
  put_frame(out, kCommand, body);
  return out;
}

std::string message_bytes(std::span<const std::string> parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    put_frame(out, i + 1 < parts.size() ? kMore : std::uint8_t{0}, parts[i]);
  return out;
}

Result<std::optional<Message>> Reader::next() {
  for (;;) {
    if (state_ == State::kGreeting) {
      TRY(bool whole, read_greeting());
      if (!whole) break;
    } else if (state_ == State::kHead) {
      TRY(bool whole, read_head());
      if (!whole) break;
    } else {
      if (!read_body()) break;
      state_ = State::kHead;
      if ((flags_ & kCommand) != 0) {
        TRY_VOID(take_command());
        continue;
      }
      if (!ready_)
        return make_error(Code::kCorrupt, "the kernel's socket sent a message before its handshake");
      Message out;
      if (take_part(out)) return std::optional<Message>(std::move(out));
    }
  }
  in_.erase(0, at_);
  at_ = 0;
  return std::optional<Message>();
}

Result<bool> Reader::read_greeting() {
  if (in_.size() < kGreetingBytes) return false;
  bool known = in_[0] == '\xff' && in_[9] == '\x7f' && in_[10] >= 3 &&
               std::string_view(in_).substr(12, 5) == std::string_view("NULL\0", 5);
  if (!known) return make_error(Code::kCorrupt, "the kernel's socket does not speak ZMTP 3 without security");
  at_ = kGreetingBytes;
  state_ = State::kHead;
  return true;
}

Result<bool> Reader::read_head() {
  std::size_t have = in_.size() - at_;
  if (have < 2) return false;
  flags_ = static_cast<std::uint8_t>(in_[at_]);
  std::size_t width = (flags_ & kLong) != 0 ? 8 : 1;
  if ((flags_ & ~(kMore | kLong | kCommand)) != 0)
    return make_error(Code::kCorrupt, "the kernel's socket sent a frame with flags {}", flags_);
  if (have < 1 + width) return false;
  left_ = 0;
  for (std::size_t i = 1; i <= width; ++i) left_ = (left_ << 8) | static_cast<std::uint8_t>(in_[at_ + i]);
  at_ += 1 + width;
  bool command = (flags_ & kCommand) != 0;
  if (command && left_ > kMaxCommand)
    return make_error(Code::kCorrupt, "the kernel's socket sent a command of {} bytes", left_);
  skip_ = !command && (left_ > limit_ - std::min(kept_, limit_) || message_.parts.size() >= kMaxParts);
  body_.clear();
  state_ = State::kBody;
  return true;
}

// True when the body is complete.
bool Reader::read_body() {
  auto step = static_cast<std::size_t>(std::min<std::uint64_t>(left_, in_.size() - at_));
  if (!skip_) body_.append(in_, at_, step);
  at_ += step;
  left_ -= step;
  return left_ == 0;
}

Result<void> Reader::take_command() {
  if (body_.starts_with("\x05READY")) {
    ready_ = true;
  } else if (!ready_) {
    return make_error(Code::kCorrupt, "the kernel's socket refused the handshake");
  }
  return success();  // others (PING of peers that were told to) need no answer here
}

bool Reader::take_part(Message& out) {
  message_.cut = message_.cut || skip_;
  kept_ += body_.size();
  if (message_.parts.size() < kMaxParts) message_.parts.push_back(std::move(body_));
  body_.clear();
  if ((flags_ & kMore) != 0) return false;
  out = std::move(message_);
  message_ = Message();
  kept_ = 0;
  return true;
}

std::size_t Socket::kept_limit() { return kMaxMessage; }

Task<Result<std::unique_ptr<Socket>>> Socket::open(net::StreamPtr stream, Type type) {
  auto socket = std::make_unique<Socket>(std::move(stream));
  std::string hello = greeting();
  CO_TRY_VOID(co_await socket->stream_->write_all(hello));
  std::string rest = zmtp::ready(type);
  CO_TRY_VOID(co_await socket->stream_->write_all(rest));
  while (!socket->reader_.ready()) {
    CO_TRY(auto early, socket->reader_.next());
    if (early)
      co_return make_error(Code::kCorrupt, "the kernel's socket sent a message before its handshake");
    if (socket->reader_.ready()) break;
    CO_TRY_VOID(co_await socket->more());
  }
  if (type == Type::kSub) {
    // Not earlier: libzmq takes whatever comes before its own READY has gone for a part of the handshake.
    std::string everything = message_bytes(std::vector<std::string>(1, std::string("\x01")));
    CO_TRY_VOID(co_await socket->stream_->write_all(everything));
  }
  co_return socket;
}

Task<Result<void>> Socket::more() {
  buffer_.resize(kReadStep);
  CO_TRY(std::size_t got, co_await stream_->read_some(std::span<char>(buffer_)));
  if (got == 0) co_return make_error(Code::kUnavailable, "the kernel has closed its socket");
  reader_.feed(std::string_view(buffer_).substr(0, got));
  co_return success();
}

Task<Result<void>> Socket::send(std::vector<std::string> parts) {
  std::string bytes = message_bytes(parts);
  co_return co_await stream_->write_all(bytes);
}

Task<Result<Message>> Socket::receive() {
  for (;;) {
    CO_TRY(auto message, reader_.next());
    if (message) co_return std::move(*message);
    CO_TRY_VOID(co_await more());
  }
}

}  // namespace atl::guest::interpreter::zmtp
