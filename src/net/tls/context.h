// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "net/tls/openssl.h"

namespace atl::net {

// What every context of Atoll has: TLS 1.2 at least, forward secrecy, no renegotiation, no compression.
Result<SslCtxPtr> make_context(const SSL_METHOD* method);

}  // namespace atl::net
