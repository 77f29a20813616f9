// SPDX-License-Identifier: Apache-2.0
//
// What the first bytes of a connection out of a sandbox are, read before anything is decided about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/policy/facts.h"
#include "gateway/tls/client_hello.h"
#include "net/stream.h"

namespace atl::gateway {

struct FirstBytes {
  policy::Stream kind = policy::Stream::kOther;
  std::string bytes;        // everything that was read
  ClientHello hello;        // of kTls
  std::string_view broken;  // why it must be refused: it began as TLS or HTTP and did not go on so
  bool ended = false;       // the client has finished sending
};

// The client says nothing for so long: then perhaps the server speaks first (SSH, SMTP, MySQL).
inline constexpr auto kSilence = std::chrono::milliseconds(150);
// From the first byte to the end of a ClientHello or a request line.
inline constexpr auto kSlowest = std::chrono::seconds(10);
inline constexpr std::size_t kMaxRequestLine = 16 * 1024;

// Reads until it can be told. Plain HTTP is known by a whole request line, "method target HTTP/x.y", also
// behind empty lines, as servers read it (RFC 9112 §2.2); what could become one and does not end is broken. A
// client that says nothing for `silence` is kOther with no bytes. The stream's idle limit is changed.
async::Task<Result<FirstBytes>> read_first_bytes(net::Stream& stream, Steady::duration silence = kSilence,
                                                 Steady::duration slowest = kSlowest);

}  // namespace atl::gateway
