// SPDX-License-Identifier: Apache-2.0
#include "ingress/flow.h"

namespace atl::ingress {

void Flow::drop_guest() {
  if (upstream) upstream->close();
  if (raw_guest != nullptr) raw_guest->close(net::Stream::Close::kReset);
}

void Flow::break_off() {
  sandbox_gone = true;
  drop_guest();
  if (raw_client != nullptr) {
    raw_client->close(net::Stream::Close::kReset);
  } else if (exchange.head_sent() &&
             !answered) {  // a whole answer may still leave; the connection serves others
    exchange.abort();
  }
}

}  // namespace atl::ingress
