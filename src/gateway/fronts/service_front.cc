// SPDX-License-Identifier: Apache-2.0
#include "gateway/fronts/service_front.h"

#include <algorithm>

#include "gateway/flow/http_flow.h"
#include "gateway/flow/refusal.h"
#include "gateway/flow/shown_token.h"
#include "gateway/upstream/request_head.h"
#include "model/guest_boot.h"

namespace atl::gateway {
namespace {

using async::Task;

constexpr std::string_view kPrefix = "/svc/";

Task<> refuse(Parts& parts, const Inbound& self, http::Exchange& exchange, const Error& error) {
  policy::Refusal refusal{std::string(error.word()), error.message(), error.hint()};
  parts.events.denied(*self.sandbox, exchange.request().path(), refusal, self.label);
  HttpRefusal no = http_refusal(http_status(error.code()), refusal);
  (void)co_await exchange.respond(std::move(no.head), std::move(no.body));
}

Error no_such_service(std::string_view name) {
  return make_error(Code::kNotFound, "there is no service '{}'", name)
      .with_word("service_unknown")
      .with_hint("the operator names services with: atoll service set NAME URL");
}

}  // namespace

bool is_gateway_itself(const Authority& authority) {
  std::string host = authority.host.text();
  return host == model::kGatewayName || host == model::kGatewayAddress;
}

std::optional<ServiceTarget> read_service_target(std::string_view target) {
  if (!target.starts_with(kPrefix)) return std::nullopt;
  target.remove_prefix(kPrefix.size());
  auto end = std::min(target.find_first_of("/?"), target.size());
  if (end == 0) return std::nullopt;
  return ServiceTarget{target.substr(0, end), target.substr(end)};
}

Task<> serve_service(Parts& parts, Inbound self, http::Exchange& exchange) {
  http::RequestHead& request = exchange.request();
  auto target = read_service_target(request.target);
  if (!target || is_ambiguous_path(target->rest.substr(0, target->rest.find('?')))) {
    Error why = make_error(Code::kNotFound, "the gateway itself has nothing at '{}'", request.path())
                    .with_word("service_unknown")
                    .with_hint("services are at /svc/NAME/, and paths behind that have no '..'");
    co_await refuse(parts, self, exchange, why);
    co_return;
  }
  const vault::Service* service = parts.vault.service(self.sandbox->tenant, target->name);
  if (service == nullptr) {
    // Without a token nobody learns which services there are.
    auto shown = check_shown_token(parts, self, request, TokenNeed::kRequired);
    Error why = shown.ok() ? no_such_service(target->name) : shown.error();
    co_await refuse(parts, self, exchange, why);
    co_return;
  }
  HttpOrigin origin;
  origin.secure = service->secure;
  origin.token = TokenNeed::kRequired;
  origin.mount = HttpMount{fmt::format("{}{}", kPrefix, service->name), service->base};
  std::string rest(target->rest);
  if (!rest.starts_with('/') && service->base.empty()) rest.insert(0, "/");
  request.target = service->base + rest;
  request.authority = service->authority.text();
  request.secure = service->secure;
  request.scheme.clear();  // of the way to here
  self.dialled = service->authority;
  HttpFlow flow(parts, std::move(self), std::move(origin));
  co_await flow.handle(exchange);
}

}  // namespace atl::gateway
