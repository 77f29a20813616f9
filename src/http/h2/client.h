// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 client side on libnghttp2: the Client of http/client.h, with many requests on one connection.
#pragma once

#include <optional>

#include "async/scope.h"
#include "base/fair_share.h"
#include "http/client.h"

namespace atl::http {

// The machine word (Error::word) of a request that the peer has certainly not acted on: it never left, or the
// peer said so (REFUSED_STREAM, or GOAWAY with a lower stream). Such may be sent again, whatever its method,
// if no byte of its body has been taken.
inline constexpr std::string_view kNotProcessed = "not_processed";

// Bounds of one connection.
struct H2ClientLimits {
  std::size_t head_bytes = 64 * 1024;  // of an answer's fields, each counted with 32 bytes on top
  std::size_t header_count = 128;
  std::size_t streams = 100;                                 // at once; the peer may allow less
  Steady::duration idle_timeout = std::chrono::seconds(60);  // without a request, then it says goodbye
  std::optional<FairShare::User> memory = {};                // whose its bodies take; nullopt: its own
};

// One connection. Dead, or going away, it stays so: make another one.
class H2Client : public Client {
 public:
  // True while a request started now would be sent at once.
  virtual bool usable() const = 0;
  virtual std::size_t active() const = 0;  // requests that are not over yet
};

// Speaks HTTP/2 on `stream` by tasks of `scope`, which must be joined before its loop goes. Sends the preface
// at once and does not wait for the peer's.
Result<std::shared_ptr<H2Client>> make_h2_client(async::Scope& scope, async::Executor executor,
                                                 net::StreamPtr stream, H2ClientLimits limits = {});

}  // namespace atl::http
