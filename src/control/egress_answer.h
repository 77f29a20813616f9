// SPDX-License-Identifier: Apache-2.0
//
// EgressAnswer: what the gateway says about a sandbox that it was told of; its guest daemon gets it.
#pragma once

#include "base/clock.h"
#include "base/secret.h"
#include "model/record.h"

namespace atl::control {

// What of a sandbox is under way in the gateway.
struct EgressWork {
  std::uint64_t requests = 0;   // that it waits for an answer of
  std::uint64_t approvals = 0;  // that a person has not decided yet
  Millis quiet{0};              // since the last request ended
};

// What it says when it is told of one, or asked.
struct EgressAnswer {
  std::string authority_pem, authority_hash;  // to be trusted inside; empty: there is none
  std::string authority_root;                 // changes when all authorities do
  Secret token;                               // of this generation, shown once; empty: none was asked for
  model::StringMap environment;               // of its processes
  std::uint64_t under_way = 0;  // requests that a pause waits for; the gateway ends them in time
  EgressWork work;              // when it was asked for
};

}  // namespace atl::control
