// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/websocket_search.h"

namespace atl::gateway {
namespace {
constexpr std::size_t kPart = 64 * 1024;
constexpr std::size_t kCloseCode = 2;
}  // namespace

Result<void> WebSocketSearch::feed(std::string_view in, std::string& out) {
  for (;;) {
    TRY(Event event, parser_.next(in));
    switch (event.kind) {
      case Event::Kind::kFrame: begin(event); break;
      case Event::Kind::kData:
        if (http::is_control(event.opcode)) {
          control_.append(event.data);
        } else {
          scanner_.feed(event.data, settled_);
          if (settled_.size() >= kPart) send(false, out);
        }
        break;
      case Event::Kind::kEnd: end(event, out); break;
      case Event::Kind::kNeedMore:
        if (!settled_.empty()) send(false, out);
        return success();
    }
  }
}

void WebSocketSearch::begin(const Event& frame) {
  if (http::is_control(frame.opcode)) return control_.clear();
  if (frame.opcode != http::WsOpcode::kContinuation) next_ = frame.opcode;
}

void WebSocketSearch::end(const Event& frame, std::string& out) {
  if (http::is_control(frame.opcode)) return send_control(frame.opcode, out);
  if (!frame.final) return;
  scanner_.flush(settled_);
  send(true, out);
}

void WebSocketSearch::send(bool final, std::string& out) {
  out += http::websocket_frame(next_, settled_, final);
  next_ = http::WsOpcode::kContinuation;
  settled_.clear();
}

// One whose text held a secret goes on without text: what stands in its place might be too long.
void WebSocketSearch::send_control(http::WsOpcode opcode, std::string& out) {
  std::string searched = control_;
  std::size_t found = patterns_->replace(searched);
  in_control_ += found;
  std::size_t keep = opcode == http::WsOpcode::kClose ? kCloseCode : 0;
  if (found > 0 && control_.size() > keep) control_.resize(keep);
  out += http::websocket_frame(opcode, control_);
}

}  // namespace atl::gateway
