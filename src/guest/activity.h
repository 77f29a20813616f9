// SPDX-License-Identifier: Apache-2.0
//
// GET /activity: whether the sandbox has work that only the guest daemon knows of. Control asks before it
// lets a sandbox sleep.
#pragma once

#include <string>

#include "guest/state.h"

namespace atl::guest {

// The JSON of the answer: processes started through the API that are no services, the eldest of them, and for
// how long there was none of them and no request of a client. Control counts for itself what passes through
// it.
std::string activity_json(const Guest& guest);

}  // namespace atl::guest
