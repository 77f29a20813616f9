// SPDX-License-Identifier: Apache-2.0
//
// The certificates of this installation, under <data>/control/tls/: an authority of its own, made once, and a
// server certificate for the domain, made anew when the domain changes or its end comes near.
#pragma once

#include <string>

#include "base/clock.h"
#include "net/tls/tls.h"

namespace atl::control_app {

// Blocking. `domain` may carry a port. The names are: domain, *.domain, localhost, 127.0.0.1, ::1.
Result<net::TlsIdentity> ensure_server_identity(const std::string& directory, const std::string& domain,
                                                Clock& clock);

}  // namespace atl::control_app
