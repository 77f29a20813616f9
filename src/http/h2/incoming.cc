// SPDX-License-Identifier: Apache-2.0
#include "http/h2/incoming.h"

#include <algorithm>
#include <cstring>

#include "base/memory.h"

namespace atl::http {
namespace {
constexpr std::size_t kKeep = 4 * 1024;  // memory that a stream without bytes may keep
// What a connection with room reads and writes in one step, and frames that go a little over it.
constexpr std::size_t kWideBuffers = 160 * 1024;
// A window takes one part of so many of what its user has left: the rest is for bytes that nobody reads yet,
// and for connections to come.
constexpr std::size_t kWindowParts = 3;

FairShare::Part own_part() { return FairShare(2 * kH2OwnBytes, kH2OwnBytes).of("").open(); }
}  // namespace

// A body that never runs dry must not grow with all that was ever taken of it. What is taken goes when there
// is enough of it that moving the rest costs little.
void H2Incoming::add(std::string_view bytes) {
  bool full = received.size() + bytes.size() > received.capacity();
  if (full && taken >= received.size() / 4) {
    received.erase(0, taken);
    taken = 0;
  }
  received.append(bytes);
}

std::size_t H2Incoming::take(std::span<char> out) {
  auto count = std::min(out.size(), buffered());
  std::memcpy(out.data(), received.data() + taken, count);
  taken += count;
  if (buffered() > 0) return count;
  received.clear();
  taken = 0;
  if (received.capacity() > kKeep) free_text(received);
  return count;
}

void H2Incoming::forget() {
  free_text(received);
  taken = 0;
}

H2Room::H2Room(const std::optional<FairShare::User>& user, std::size_t most_window)
    : part_(user ? user->open() : own_part()) {
  auto window = std::min(most_window, part_.room() / kWindowParts);
  wide_ = window >= kLeastWindow && part_.grow(window + kWideBuffers);
  if (wide_) window_ = static_cast<std::int32_t>(window);
}

void H2Room::arrived(nghttp2_session* session, H2Incoming& body, std::string_view bytes) {
  body.add(bytes);
  if (part_.grow(bytes.size())) {
    nghttp2_session_consume_connection(session, bytes.size());
  } else {
    body.unreleased += bytes.size();
  }
}

void H2Room::left(nghttp2_session* session, std::int32_t id, bool closed, H2Incoming& body,
                  std::size_t bytes) {
  std::size_t owed = std::min(bytes, body.unreleased);
  body.unreleased -= owed;
  part_.shrink(bytes - owed);
  if (session == nullptr) return;
  if (owed > 0) nghttp2_session_consume_connection(session, owed);
  if (!closed) nghttp2_session_consume_stream(session, id, bytes);
}

}  // namespace atl::http
