// SPDX-License-Identifier: Apache-2.0
//
// POST /init: control tells the sandbox who it is. Sent before any client's request, and again after each
// resume.
#pragma once

#include "guest/rpc.h"
#include "guest/state.h"
#include "guest/trust.h"

namespace atl::guest {

struct InitRequest {
  Settings settings;
  std::optional<std::int64_t> time_ms;  // of control's clock
  std::string random;                   // 32 bytes for the kernel's pool
  std::string host_name;
  bool keep_environment = false;                           // instead of what `settings` has
  Authority authority;                                     // to be trusted; empty: none
  std::string gateway_token;                               // to show to the gateway; empty: it stays as it is
  std::map<std::string, std::string> gateway_environment;  // with it
  std::string internal_token;  // hex, its own: the one that it knows is that of its parent
};
Result<InitRequest> parse_init(std::string_view text);

// 204 when applied. An older generation than the present one is refused with 409.
Task<> serve_init(Guest& guest, Exchange& exchange);

}  // namespace atl::guest
