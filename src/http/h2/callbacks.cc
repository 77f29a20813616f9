// SPDX-License-Identifier: Apache-2.0
#include "http/h2/callbacks.h"

#include "base/check.h"
#include "http/h2/connection.h"
#include "http/h2/fields.h"
#include "http/h2/outgoing.h"
#include "http/h2/request_fields.h"

namespace atl::http {

namespace {
std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
}  // namespace

struct H2Callbacks {
  static H2Connection& self(void* user) { return *static_cast<H2Connection*>(user); }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& c = self(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    // Streams that the peer has reset still count while their handlers run.
    if (c.live_ + c.ready_.size() >= 2 * c.limits_.h2_streams) return kH2Refused;
    auto id = frame->hd.stream_id;
    c.streams_.emplace(id, std::make_shared<H2Stream>(c.executor_, id, c.limits_.body_idle));
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                    void* user) {
    auto& c = self(user);
    auto stream = c.find(frame->hd.stream_id);
    if (!stream) return 0;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      bool fits = add_trailer(stream->request_trailers, stream->trailer_bytes, text_of(name, name_size),
                              text_of(value, value_size));
      return fits ? 0 : kH2Refused;
    }
    bool ok = add_request_field(*stream, text_of(name, name_size), text_of(value, value_size), c.limits_);
    return ok ? 0 : kH2Refused;
  }

  // Frames that cost us work and cost the peer nothing. Seen here, since nghttp2 drops some of them silently.
  static int begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* user) {
    auto& c = self(user);
    bool ack = (head->flags & NGHTTP2_FLAG_ACK) != 0;
    bool ends = (head->flags & (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS)) != 0;
    switch (head->type) {
      case NGHTTP2_DATA:
      case NGHTTP2_HEADERS:
      case NGHTTP2_CONTINUATION: return head->length > 0 || ends ? 0 : c.charge(c.controls_, "empty frames");
      case NGHTTP2_PING:
      case NGHTTP2_SETTINGS: return ack ? 0 : c.charge(c.controls_, "control frames");
      case NGHTTP2_RST_STREAM: return c.charge(c.resets_, "stream resets");
      case NGHTTP2_WINDOW_UPDATE:
      case NGHTTP2_GOAWAY: return 0;
      default: return c.charge(c.controls_, "control frames");
    }
  }

  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& c = self(user);
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    auto stream = c.find(frame->hd.stream_id);
    if (!stream) return 0;
    bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (ends) stream->end_received = true;
    if (frame->hd.type == NGHTTP2_HEADERS && !stream->started) {
      finish_request_head(*stream, c.limits_);
      stream->started = true;
      c.ready_.push_back(stream);
    } else if (ends) {
      stream->readable.notify_all();
    }
    return 0;
  }

  static int invalid_frame(nghttp2_session*, const nghttp2_frame*, int, void* user) {
    auto& c = self(user);
    return c.charge(c.resets_, "invalid frames");
  }

  static int data_received(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                           std::size_t size, void* user) {
    auto& c = self(user);
    auto stream = c.find(id);
    if (!stream || stream->handler_done) {
      nghttp2_session_consume(session, id, size);
      return 0;
    }
    c.room_.arrived(session, *stream, text_of(data, size));
    stream->readable.notify_all();
    return 0;
  }

  static int stream_closed(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    auto& c = self(user);
    auto stream = c.find(id);
    if (!stream) return 0;
    stream->close();
    if (stream->handler_done) c.discard_body(*stream);
    c.streams_.erase(id);
    return 0;
  }

  static int frame_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& c = self(user);
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
      auto error = frame->rst_stream.error_code;
      // Resets of our own choice are not the peer's doing; all others it has provoked ("MadeYouReset",
      // CVE-2025-8671).
      if (error != NGHTTP2_INTERNAL_ERROR && error != NGHTTP2_NO_ERROR) {
        // Sending goes on, so that the GOAWAY that follows can be sent.
        (void)c.charge(c.resets_, "provoked resets");
      }
      return 0;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    if (auto stream = c.find(frame->hd.stream_id)) {
      stream->end_sent = true;
      c.stop_upload(*stream);
    }
    return 0;
  }

  static ssize_t read_source(nghttp2_session* session, std::int32_t id, std::uint8_t*, std::size_t limit,
                             std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<H2Stream*>(source->ptr);
    return read_outgoing(session, id, limit, flags, stream, stream.trailers);
  }

  static int send_data(nghttp2_session*, nghttp2_frame* frame, const std::uint8_t* head, std::size_t size,
                       nghttp2_data_source* source, void* user) {
    auto& stream = *static_cast<H2Stream*>(source->ptr);
    int failed = send_outgoing(self(user).out_, *frame, head, size, stream);
    if (failed == 0 && stream.write_deadline != Steady::time_point::max())
      stream.write_deadline = Steady::now() + stream.idle_limit;
    return failed;
  }
};

const nghttp2_session_callbacks* h2_callbacks() {
  static nghttp2_session_callbacks* const kCallbacks = [] {
    nghttp2_session_callbacks* made = nullptr;
    CHECK(nghttp2_session_callbacks_new(&made) == 0, "out of memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, H2Callbacks::begin_headers);
    nghttp2_session_callbacks_set_on_begin_frame_callback(made, H2Callbacks::begin_frame);
    nghttp2_session_callbacks_set_on_header_callback(made, H2Callbacks::header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, H2Callbacks::frame_received);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, H2Callbacks::invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, H2Callbacks::data_received);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, H2Callbacks::stream_closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, H2Callbacks::frame_sent);
    nghttp2_session_callbacks_set_send_data_callback(made, H2Callbacks::send_data);
    return made;
  }();
  return kCallbacks;
}

nghttp2_data_provider h2_data_provider(H2Stream& stream) {
  nghttp2_data_provider provider{};
  provider.source.ptr = &stream;
  provider.read_callback = H2Callbacks::read_source;
  return provider;
}

}  // namespace atl::http
