// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "http/h2/stream.h"

namespace atl::http {

// Takes one header field of a request. False when so much has arrived that the stream should simply be reset.
bool add_request_field(H2Stream& stream, std::string_view name, std::string_view value,
                       const ServerLimits& limits);
// Checks the complete head and sets `refusal` if it cannot be served.
void finish_request_head(H2Stream& stream, const ServerLimits& limits);

}  // namespace atl::http
