// SPDX-License-Identifier: Apache-2.0
//
// nghttp2 has refused the grossest already: upper-case names, connection-specific fields, a missing or late
// :status, lengths that do not match the data, frames out of order, pushes.
#include "http/h2/client_callbacks.h"

#include "base/check.h"
#include "base/text.h"
#include "http/h2/fields.h"
#include "http/h2/outgoing.h"
#include "http/syntax.h"

namespace atl::http {

namespace {
constexpr std::size_t kFieldOverhead = 32;  // RFC 9113 §6.5.2 counts a field so
constexpr int kMaxInterim = 8;

std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
}  // namespace

struct H2ClientCallbacks {
  static H2ClientConnection& self(void* user) { return *static_cast<H2ClientConnection*>(user); }

  static int refuse(H2ClientConnection& c, H2ClientStream& stream, std::string_view why) {
    if (!stream.failure)
      stream.failure = make_error(Code::kCorrupt, "answer of {}: {}", c.stream_->peer(), why);
    return kH2Refused;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* raw_name,
                    std::size_t name_size, const std::uint8_t* raw_value, std::size_t value_size,
                    std::uint8_t, void* user) {
    auto& c = self(user);
    auto stream = c.find(frame->hd.stream_id);
    if (!stream || frame->hd.type != NGHTTP2_HEADERS) return 0;
    auto name = text_of(raw_name, name_size), value = text_of(raw_value, value_size);
    auto& s = *stream;
    if (s.head_done)
      return add_trailer(s.trailers, s.trailer_bytes, name, value) ? 0 : refuse(c, s, "trailer is too large");
    s.head_bytes += name.size() + value.size() + kFieldOverhead;
    if (s.head_bytes > c.limits_.head_bytes) return refuse(c, s, "message head is too large");
    if (name == ":status") {
      s.head.status = parse_number<std::uint16_t>(value).value_or(0);
      return 0;
    }
    if (s.head.headers.size() >= c.limits_.header_count) return refuse(c, s, "too many header fields");
    value = trim(value);
    if (!is_token(name) || !is_field_value(value)) return refuse(c, s, "malformed header field");
    s.head.headers.add(std::string(name), std::string(value));
    return 0;
  }

  // Frames that cost us work and cost the peer nothing. Seen here, since nghttp2 drops some of them silently.
  static int begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* user) {
    auto& c = self(user);
    bool ack = (head->flags & NGHTTP2_FLAG_ACK) != 0;
    bool ends = (head->flags & (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS)) != 0;
    switch (head->type) {
      case NGHTTP2_DATA:
      case NGHTTP2_HEADERS:
      case NGHTTP2_CONTINUATION: return head->length > 0 || ends ? 0 : c.charge("empty frames");
      case NGHTTP2_PING:
      case NGHTTP2_SETTINGS: return ack ? 0 : c.charge("control frames");
      // Each ends one stream that we have opened, or grants what we have asked for.
      case NGHTTP2_RST_STREAM: return c.find(head->stream_id) ? 0 : c.charge("resets of closed streams");
      case NGHTTP2_WINDOW_UPDATE: return 0;
      default: return c.charge("control frames");
    }
  }

  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& c = self(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) c.leaving_ = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    auto stream = c.find(frame->hd.stream_id);
    if (!stream) return 0;
    auto& s = *stream;
    bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !s.head_done) {
      if (s.head.status < 100 || s.head.status > 599) return refuse_late(c, s, "status code out of range");
      if (s.head.status == 101) return refuse_late(c, s, "protocol switch in HTTP/2");
      s.head_done = s.head.status >= 200;
      if (!s.head_done) {
        if (++s.interim > kMaxInterim) return refuse_late(c, s, "too many interim answers");
        s.head = ResponseHead{.status = 0};
      }
    }
    s.end_received |= ends;
    if (s.head_done || ends) s.readable.notify_all();
    return 0;
  }

  static int refuse_late(H2ClientConnection& c, H2ClientStream& stream, std::string_view why) {
    (void)refuse(c, stream, why);
    nghttp2_submit_rst_stream(c.session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_PROTOCOL_ERROR);
    return 0;
  }

  static int invalid_frame(nghttp2_session*, const nghttp2_frame*, int, void* user) {
    return self(user).charge("invalid frames");
  }

  static int data_received(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                           std::size_t size, void* user) {
    auto& c = self(user);
    auto stream = c.find(id);
    if (!stream || stream->dropped) {
      nghttp2_session_consume(session, id, size);
      return 0;
    }
    c.room_.arrived(session, *stream, text_of(data, size));
    stream->readable.notify_all();
    return 0;
  }

  static int stream_closed(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
    auto& c = self(user);
    auto stream = c.find(id);
    if (!stream) return 0;
    std::optional<Error> why;
    if (!(stream->end_received && stream->head_done)) why = c.closed_stream(*stream, code);
    stream->close(std::move(why));
    if (stream->dropped) c.drop(*stream);
    c.streams_.erase(id);
    if (c.streams_.empty()) c.output_.notify_all();
    return 0;
  }

  static int frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto stream = self(user).find(frame->hd.stream_id);
    if (stream && frame->hd.type == NGHTTP2_HEADERS) stream->head_sent = true;
    return 0;
  }

  static ssize_t read_source(nghttp2_session* session, std::int32_t id, std::uint8_t*, std::size_t limit,
                             std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<H2ClientStream*>(source->ptr);
    return read_outgoing(session, id, limit, flags, stream, stream.request_trailers);
  }

  static int send_data(nghttp2_session*, nghttp2_frame* frame, const std::uint8_t* head, std::size_t size,
                       nghttp2_data_source* source, void* user) {
    return send_outgoing(self(user).out_, *frame, head, size, *static_cast<H2ClientStream*>(source->ptr));
  }
};

const nghttp2_session_callbacks* h2_client_callbacks() {
  static nghttp2_session_callbacks* const kCallbacks = [] {
    nghttp2_session_callbacks* made = nullptr;
    CHECK(nghttp2_session_callbacks_new(&made) == 0, "out of memory");
    nghttp2_session_callbacks_set_on_begin_frame_callback(made, H2ClientCallbacks::begin_frame);
    nghttp2_session_callbacks_set_on_header_callback(made, H2ClientCallbacks::header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, H2ClientCallbacks::frame_received);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, H2ClientCallbacks::invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, H2ClientCallbacks::data_received);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, H2ClientCallbacks::stream_closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, H2ClientCallbacks::frame_sent);
    nghttp2_session_callbacks_set_send_data_callback(made, H2ClientCallbacks::send_data);
    return made;
  }();
  return kCallbacks;
}

nghttp2_data_provider h2_client_data_provider(H2ClientStream& stream) {
  nghttp2_data_provider provider{};
  provider.source.ptr = &stream;
  provider.read_callback = H2ClientCallbacks::read_source;
  return provider;
}

}  // namespace atl::http
