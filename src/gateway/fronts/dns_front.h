// SPDX-License-Identifier: Apache-2.0
//
// The DNS of sandboxes. Names that some rule may let through have a synthetic address; all others do not
// exist, at once and without a packet to anybody.
#pragma once

#include <string>

#include "gateway/flow/parts.h"
#include "net/stream.h"

namespace atl::gateway {

// The answer to one question; empty when it must not be answered, or the sandbox asks too much at once.
// `label`: of the process that asks; empty when it has none.
async::Task<std::string> answer_question(Parts& parts, SandboxPtr sandbox, std::string label,
                                         std::string question);
// Questions over TCP (RFC 7766), until the client has no more.
async::Task<> serve_dns_stream(Parts& parts, net::StreamPtr client, SandboxPtr sandbox, std::string label);

}  // namespace atl::gateway
