// SPDX-License-Identifier: Apache-2.0
#include "http/websocket.h"

#include <algorithm>

namespace atl::http {
namespace {
constexpr std::size_t kPiece = 16 * 1024;
constexpr std::uint64_t kMaxControl = 125;
constexpr unsigned char kFinal = 0x80, kReserved = 0x70, kMasked = 0x80;

Error bad(std::string_view what) { return make_error(Code::kInvalid, "malformed WebSocket frame: {}", what); }

bool is_known(unsigned char opcode) { return opcode <= 2 || (opcode >= 8 && opcode <= 10); }

// RFC 6455 §7.4.
bool may_be_sent(unsigned code) {
  if (code >= 3000) return code <= 4999;
  return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
}
}  // namespace

Result<bool> WebSocketParser::read_head(std::string_view& in) {
  std::size_t wanted = 2;
  for (;;) {
    if (head_size_ >= 2) {
      auto size = head_[1] & 0x7f;
      wanted = 2u + (size == 126 ? 2u : size == 127 ? 8u : 0u) + ((head_[1] & kMasked) != 0 ? 4u : 0u);
    }
    if (head_size_ >= 2 && head_size_ == wanted) return true;
    if (in.empty()) return false;
    head_[head_size_++] = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
  }
}

Result<void> WebSocketParser::check_head() {
  auto first = head_[0], second = head_[1];
  if ((first & kReserved) != 0) return bad("reserved bits without an extension");
  if (!is_known(first & 0x0f)) return bad("unknown opcode");
  masked_ = (second & kMasked) != 0;
  if (masked_ != (from_ == WsSender::kClient))
    return bad(masked_ ? "masked by a server" : "not masked by a client");
  std::size_t bytes = (second & 0x7f) == 126 ? 2 : (second & 0x7f) == 127 ? 8 : 0;
  std::uint64_t length = bytes == 0 ? second & 0x7f : 0;
  for (std::size_t i = 0; i < bytes; ++i) length = length << 8 | head_[2 + i];
  if ((bytes == 2 && length < 126) || (bytes == 8 && length <= 0xffff) || length >> 63 != 0)
    return bad("length that is not in its shortest form");
  if (masked_) std::copy_n(head_.begin() + static_cast<std::ptrdiff_t>(2 + bytes), 4, mask_.begin());
  frame_ = Event{};
  frame_.kind = Event::Kind::kFrame;
  frame_.opcode = static_cast<WsOpcode>(first & 0x0f);
  frame_.final = (first & kFinal) != 0;
  frame_.length = left_ = length;
  if (closed_) return bad("frame after a close");
  if (!is_control(frame_.opcode)) return count_message();
  if (!frame_.final || length > kMaxControl) return bad("control frame that is long or in parts");
  frame_.message = frame_.opcode;
  return success();
}

Result<void> WebSocketParser::count_message() {
  bool continues = frame_.opcode == WsOpcode::kContinuation;
  if (continues != message_.has_value())
    return bad(continues ? "continuation of nothing" : "new message before the last one ended");
  if (!continues) {
    message_ = frame_.opcode;
    message_bytes_ = 0;
  }
  frame_.message = *message_;
  if (frame_.length > limits_.frame_bytes || message_bytes_ + frame_.length > limits_.message_bytes) {
    return make_error(Code::kTooLarge, "WebSocket message larger than the {} bytes accepted here",
                      limits_.message_bytes);
  }
  message_bytes_ += frame_.length;
  return success();
}

WebSocketParser::Event WebSocketParser::payload(std::string_view& in) {
  auto size = static_cast<std::size_t>(std::min<std::uint64_t>({left_, in.size(), kPiece}));
  auto raw = in.substr(0, size);
  in.remove_prefix(size);
  left_ -= size;
  Event event = frame_;
  event.kind = Event::Kind::kData;
  event.data = raw;
  if (masked_) {
    piece_.resize(size);
    for (std::size_t i = 0; i < size; ++i)
      piece_[i] = static_cast<char>(static_cast<unsigned char>(raw[i]) ^ mask_[mask_at_++ % 4]);
    event.data = piece_;
  }
  if (frame_.opcode == WsOpcode::kClose) close_text_.append(event.data);
  return event;
}

Result<WebSocketParser::Event> WebSocketParser::end_frame() {
  in_frame_ = false;
  head_size_ = 0;
  if (frame_.opcode == WsOpcode::kClose) {
    closed_ = true;
    if (close_text_.size() == 1) return bad("close with half a code");
    if (close_text_.size() >= 2) {
      auto code =
          static_cast<unsigned char>(close_text_[0]) * 256u + static_cast<unsigned char>(close_text_[1]);
      if (!may_be_sent(code)) return bad("close with a code that nobody may send");
    }
  }
  if (!is_control(frame_.opcode) && frame_.final) message_.reset();
  Event event = frame_;
  event.kind = Event::Kind::kEnd;
  return event;
}

Result<WebSocketParser::Event> WebSocketParser::next(std::string_view& in) {
  if (!in_frame_) {
    TRY(bool complete, read_head(in));
    if (!complete) return Event{};
    TRY_VOID(check_head());
    in_frame_ = true;
    mask_at_ = 0;
    return frame_;
  }
  if (left_ == 0) return end_frame();
  if (in.empty()) return Event{};
  return payload(in);
}

std::string websocket_frame(WsOpcode opcode, std::string_view payload, bool final,
                            std::optional<std::array<unsigned char, 4>> mask) {
  std::string out;
  out.reserve(payload.size() + 14);
  out += static_cast<char>((final ? kFinal : 0) | static_cast<unsigned char>(opcode));
  unsigned char flag = mask ? kMasked : 0;
  std::size_t bytes = payload.size() < 126 ? 0 : payload.size() <= 0xffff ? 2 : 8;
  auto first = bytes == 0 ? payload.size() : bytes == 2 ? 126u : 127u;
  out += static_cast<char>(flag | static_cast<unsigned char>(first));
  for (std::size_t i = bytes; i > 0; --i) out += static_cast<char>(payload.size() >> (8 * (i - 1)));
  if (!mask) return out.append(payload);
  for (auto byte : *mask) out += static_cast<char>(byte);
  for (std::size_t i = 0; i < payload.size(); ++i)
    out += static_cast<char>(static_cast<unsigned char>(payload[i]) ^ (*mask)[i % 4]);
  return out;
}

}  // namespace atl::http
