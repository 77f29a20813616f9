// SPDX-License-Identifier: Apache-2.0
//
// Asking a person about a request, and waiting with it.
#pragma once

#include "gateway/flow/bodies.h"
#include "gateway/flow/parts.h"

namespace atl::gateway {

// A larger body cannot be asked about: it is held as long as the request waits.
inline constexpr std::size_t kMaxAskedBody = 1 << 20;

// The fields of a head as it goes out, as far as the client decides that: without what Connection takes away
// on the way, and without tokens of ours. Rules and persons judge this: what they see is what the server
// sees.
http::Headers as_sent(const http::Headers& received);

// `body` is there when the request has one.
Question question_about(const Inbound& in, bool secure, const http::Exchange& exchange,
                        const std::optional<HeldBody>& body, const policy::AskedBy& asked);

// Until it is decided or ended or its time is over (kDecided: `row` says which), the client has gone away, or
// `rules` says that other ones are in force.
enum class Waited : std::uint8_t { kDecided, kGone, kRules };
async::Task<Waited> wait_for_person(Approvals& approvals, Approvals::RowPtr row, http::Exchange& exchange,
                                    async::Event& rules, Steady::time_point until);

}  // namespace atl::gateway
