// SPDX-License-Identifier: Apache-2.0
//
// A refusal in a form that the program inside understands: an HTTP answer, a TLS alert, or a reset. At once.
#pragma once

#include "gateway/fronts/first_bytes.h"
#include "gateway/policy/policy.h"
#include "http/message.h"

namespace atl::gateway {

// Alerts of TLS (RFC 8446 §6.2).
enum class TlsAlert : std::uint8_t { kDecode = 50, kAccessDenied = 49, kUnrecognizedName = 112 };

// Refuses a connection of which `first` has been read, and closes it.
async::Task<> refuse_connection(net::StreamPtr stream, const FirstBytes& first, policy::Refusal refusal,
                                TlsAlert alert = TlsAlert::kAccessDenied);

}  // namespace atl::gateway
