// SPDX-License-Identifier: Apache-2.0
//
// What ingress itself says when a request does not reach a sandbox. Clients match on these texts
// (e2b-protocol §6).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "http/server.h"

namespace atl::ingress {

struct Refusal {
  int status = 502;
  std::string sandbox;  // empty: the request named none
  std::string message;
  std::optional<std::uint16_t> port;  // told only where the port is the reason
};

Refusal not_found(std::string sandbox);
Refusal port_closed(std::string sandbox, std::uint16_t port);
Refusal no_answer(std::string sandbox, std::uint16_t port);
Refusal agent_silent(std::string sandbox);  // the guest daemon lives, but does not answer
Refusal traffic_token_missing(std::string sandbox);
Refusal traffic_token_wrong(std::string sandbox);
Refusal state_changing(std::string sandbox);
Refusal not_woken(std::string sandbox, const Error& why);
Refusal too_many_connections(std::string sandbox);
Refusal bad_request(std::string message);

// {"sandboxId":"…","message":"…","port":1,"code":502}
std::string refusal_json(const Refusal& refusal);
// A small page for people. It loads nothing and runs nothing.
std::string refusal_page(const Refusal& refusal);

// Sends it: JSON, or the page when a browser navigates.
async::Task<> refuse(http::Exchange& exchange, Refusal refusal);

}  // namespace atl::ingress
