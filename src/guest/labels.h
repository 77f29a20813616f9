// SPDX-License-Identifier: Apache-2.0
//
// Labels of commands: a command that is started with one has an identity of its own for the rules of what may
// leave the sandbox (docs/decisions/0128). The runner makes the group that stands for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "guest/label_right.h"
#include "guest/state.h"
#include "http/message.h"
#include "sys/fd.h"

namespace atl::guest {

// The right of who sent a request: what is inside, with or without the access token, would have any label
// that way.
LabelRight label_right(const http::RequestHead& request);

// The number of the label that a command is to have, 0 for none: by the word of the request, `asked`, or by
// the variable ATOLL_LABEL of the request's own environment: that of the sandbox lies on its disk, where root
// inside may write. kUnsupported with the word label_unsupported, kNotFound with label_unknown, kDenied with
// label_refused.
Result<std::uint32_t> choose_label(const Settings& settings, const model::GuestBoot& boot,
                                   const std::string& asked,
                                   const std::map<std::string, std::string>& environment, LabelRight right);

// Where a process writes "0" to be in the group of this label.
Result<sys::Fd> open_label(const model::GuestBoot& boot, std::uint32_t label);

}  // namespace atl::guest
