// SPDX-License-Identifier: Apache-2.0
//
// Rules in nft's language.
#pragma once

#include <string>

#include "base/result.h"

struct nft_ctx;

namespace atl::runner {

// A context acts in the network namespace that its maker was in.
Result<nft_ctx*> make_nft_context();

// Runs commands, all or none, and gives what they print; `terse`: without elements and counters. One at a
// time in the whole process: contexts of the library share state.
Result<std::string> run_nft(nft_ctx* context, const std::string& commands, bool terse = false);

}  // namespace atl::runner
