// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 server side on libnghttp2: same Exchange, same Handler as HTTP/1.1.
#pragma once

#include "http/server.h"

namespace atl::http {

// Serves HTTP/2 on `stream` until the connection ends. Budgets against rapid reset, settings and ping floods
// and header bombs: a peer that exceeds one gets GOAWAY.
Task<> serve_http2(net::StreamPtr stream, std::string prefix, bool secure, const ServerLimits& limits,
                   const Handler& handler, Drain* drain = nullptr);

}  // namespace atl::http
