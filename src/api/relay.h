// SPDX-License-Identifier: Apache-2.0
//
// What the gateway says to calls that are passed on to it.
#pragma once

#include "api/router.h"
#include "http/client.h"

namespace atl::api {

// The gateway's answer as ours, also when it is an error: both have one form.
Answer relayed(http::Answer answer);

}  // namespace atl::api
