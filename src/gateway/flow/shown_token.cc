// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/shown_token.h"

#include "gateway/token/tokens.h"

namespace atl::gateway {
namespace {

constexpr const char* kHint =
    "send the token of this sandbox, $ATOLL_TOKEN or the content of /run/e2b/.ATOLL_TOKEN, as "
    "'Authorization: Bearer' or 'x-api-key'; it changes when the sandbox is resumed";

}  // namespace

Result<void> check_shown_token(const Parts& parts, const Inbound& in, const http::RequestHead& request,
                               TokenNeed need) {
  auto shown = token::find_token(request.headers);
  if (!shown && need == TokenNeed::kOptional) return success();
  if (!shown) {
    return make_error(Code::kUnauthenticated, "a request to a service needs the token of its sandbox")
        .with_word("token_required")
        .with_hint(kHint);
  }
  const Sandbox& sandbox = *in.sandbox;
  token::Holder presenter{sandbox.tenant, sandbox.id, sandbox.generation, sandbox.slot};
  auto grant = parts.tokens.check(shown->reveal(), presenter);
  if (!grant) return std::move(grant).error().with_hint(kHint);
  token::Use use{in.dialled.host, request.method, request.path(), in.label, parts.clock.now()};
  return grant->allows(use);
}

}  // namespace atl::gateway
