// SPDX-License-Identifier: Apache-2.0
//
// Frames of WebSocket from both sides: any bytes are parsed or refused, however they are cut; what we write
// is read again.
#include "http/websocket.h"

#include "base/check.h"

namespace {

using namespace atl::http;
using Kind = WebSocketParser::Event::Kind;

// All events as one text; ends with "!" where the bytes were refused.
std::string parse(std::string_view bytes, WsSender from, std::size_t step) {
  WebSocketParser parser(from, {.frame_bytes = 4096, .message_bytes = 8192});
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    auto in = bytes.substr(at, step);
    for (;;) {
      auto event = parser.next(in);
      if (!event.ok()) return out + "!";
      if (event->kind == Kind::kNeedMore) break;
      if (event->kind == Kind::kFrame)
        out += fmt::format("[{} {}", static_cast<int>(event->opcode), event->length);
      if (event->kind == Kind::kData) out += event->data;
      if (event->kind == Kind::kEnd) out += "]";
    }
    CHECK(in.empty(), "bytes left over");
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (auto from : {WsSender::kClient, WsSender::kServer}) {
    auto whole = parse(text, from, size + 1);
    CHECK(whole == parse(text, from, 1 + data[0] % 16), "the cuts change what is read");
  }
  auto written = websocket_frame(WsOpcode::kBinary, text.substr(0, 4096));
  auto back = parse(written, WsSender::kServer, 1 + data[0]);
  CHECK(back == fmt::format("[2 {}{}]", std::min<std::size_t>(text.size(), 4096), text.substr(0, 4096)),
        "a frame of ours is not read again");
  return 0;
}
