// SPDX-License-Identifier: Apache-2.0
#include "gateway/fetch/token_fetch.h"

namespace atl::gateway {
namespace {

using async::Task;

constexpr std::string_view kScheme = "https://";
constexpr std::size_t kMaxAnswer = 64 * 1024;
constexpr auto kFirstByte = std::chrono::seconds(30);
constexpr auto kTotal = std::chrono::seconds(60);

struct Url {
  Authority authority;
  std::string target;
};

Result<Url> read_url(std::string_view text) {
  if (!text.starts_with(kScheme)) return make_error(Code::kInvalid, "a token endpoint must be an https URL");
  text.remove_prefix(kScheme.size());
  auto end = std::min(text.find_first_of("/?"), text.size());
  TRY(Authority authority, parse_authority(text.substr(0, end), kHttpsPort));
  std::string target(text.substr(end));
  if (!target.starts_with('/')) target.insert(0, "/");
  if (target.find_first_of("# \t\r\n") != target.npos)
    return make_error(Code::kInvalid, "the URL of a token endpoint is malformed");
  return Url{std::move(authority), std::move(target)};
}

http::RequestHead head_of(const vault::TokenRequest& request, const Url& url) {
  http::RequestHead head;
  head.method = "POST";
  head.target = url.target;
  head.authority = url.authority.port == kHttpsPort ? url.authority.host.text() : url.authority.text();
  head.secure = true;
  head.has_body = true;
  head.content_length = request.body.reveal().size();
  for (const auto& [name, value] : request.headers) head.headers.add(name, value.reveal());
  return head;
}

Task<Result<vault::TokenAnswer>> fetch(Upstream& upstream, AddressCheck check, vault::TokenRequest request) {
  CO_TRY(Url url, read_url(request.url));
  Route route{.authority = url.authority, .sandbox = "token endpoints"};
  route.check = std::move(check);
  route.limits.first_byte = kFirstByte;
  route.limits.total = kTotal;
  CO_TRY(auto exchange, co_await upstream.start(route, head_of(request, url)));
  CO_TRY_VOID(co_await exchange->write_body(request.body.reveal()));
  CO_TRY_VOID(co_await exchange->finish_body());
  CO_TRY(http::ResponseHead head, co_await exchange->read_head());
  CO_TRY(std::string body, co_await exchange->read_all(kMaxAnswer));
  co_return vault::TokenAnswer{head.status, Secret(std::move(body))};
}

}  // namespace

vault::Fetch make_token_fetch(Upstream& upstream, AddressCheck check) {
  return [&upstream, check = std::move(check)](vault::TokenRequest request) {
    return fetch(upstream, check, std::move(request));
  };
}

}  // namespace atl::gateway
