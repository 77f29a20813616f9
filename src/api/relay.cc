// SPDX-License-Identifier: Apache-2.0
#include "api/relay.h"

namespace atl::api {

Answer relayed(http::Answer answer) {
  Answer out;
  out.status = answer.head.status;
  if (out.status == 503 || out.status == 429) out.headers.add("retry-after", "2");
  out.body = std::move(answer.body);
  return out;
}

}  // namespace atl::api
