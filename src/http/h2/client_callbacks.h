// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nghttp2/nghttp2.h>

#include "http/h2/client_connection.h"

namespace atl::http {

// The functions that nghttp2 calls for a client; made once per process.
const nghttp2_session_callbacks* h2_client_callbacks();
// The source of a stream's request body.
nghttp2_data_provider h2_client_data_provider(H2ClientStream& stream);

}  // namespace atl::http
