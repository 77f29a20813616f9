// SPDX-License-Identifier: Apache-2.0
#include "runner/netns.h"

#include <sched.h>

#include <cerrno>

#include "base/check.h"
#include "runner/names.h"

namespace atl::runner {

NetnsVisit::~NetnsVisit() {
  // A thread that cannot go home would do all its later work in a sandbox's network.
  CHECK(::setns(home_, CLONE_NEWNET) == 0, "return to the host's network namespace: errno {}", errno);
}

Result<void> configure_inside(sys::Netlink& inside) {
  TRY(std::uint32_t lo, inside.link_index("lo"));
  TRY_VOID(inside.set_up(lo));
  TRY(std::uint32_t eth, inside.link_index("eth0"));
  TRY_VOID(inside.add_address(eth, kInsideAddress, 32));
  TRY_VOID(inside.set_up(eth));
  TRY_VOID(inside.add_route(eth, kGatewayAddress, 32, std::nullopt));
  return inside.add_route(eth, {}, 0, kGatewayAddress);
}

}  // namespace atl::runner
