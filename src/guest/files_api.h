// SPDX-License-Identifier: Apache-2.0
//
// The REST calls on file contents: GET /files, POST /files, POST /files/compose.
#pragma once

#include "guest/access.h"
#include "guest/rpc.h"
#include "guest/state.h"

namespace atl::guest {

Task<> serve_download(Guest& guest, Exchange& exchange, Query query);
Task<> serve_upload(Guest& guest, Exchange& exchange, Query query);
Task<> serve_compose(Guest& guest, Exchange& exchange);

}  // namespace atl::guest
