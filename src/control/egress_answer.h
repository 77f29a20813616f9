// SPDX-License-Identifier: Apache-2.0
//
// EgressAnswer: what the gateway says about a sandbox that it was told of; its guest daemon gets it.
#pragma once

#include "base/secret.h"
#include "model/record.h"

namespace atl::control {

struct EgressAnswer {
  std::string authority_pem, authority_hash;  // to be trusted inside; empty: there is none
  std::string authority_root;                 // changes when all authorities do
  Secret token;                               // of this generation, shown once; empty: none was asked for
  model::StringMap environment;               // of its processes
  std::uint64_t under_way = 0;  // requests that a pause waits for; the gateway ends them in time
};

}  // namespace atl::control
