// SPDX-License-Identifier: Apache-2.0
//
// Whether a client may start commands with labels and speak to them; who may is in guest/labels.h.
#pragma once

namespace atl::guest {

enum class LabelRight : bool { kNo, kYes };

}  // namespace atl::guest
