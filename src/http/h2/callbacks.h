// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nghttp2/nghttp2.h>

#include "http/h2/stream.h"

namespace atl::http {

// The functions that nghttp2 calls; made once per process.
const nghttp2_session_callbacks* h2_callbacks();
// The source of a stream's answer body, for nghttp2_submit_response().
nghttp2_data_provider h2_data_provider(H2Stream& stream);

}  // namespace atl::http
