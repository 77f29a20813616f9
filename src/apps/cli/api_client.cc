// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/api_client.h"

#include <netdb.h>

#include <boost/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "net/tcp.h"
#include "net/tls/tls.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

constexpr Steady::duration kConnectLimit = std::chrono::seconds(10);
constexpr Steady::duration kAnswerLimit = std::chrono::seconds(120);  // no byte for so long

// A numeric address for `host`. Names below localhost are this machine (RFC 6761), whatever the resolver
// says.
Result<std::string> resolve(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost")) return std::string("127.0.0.1");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int failure = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (failure != 0) {
    return make_error(Code::kUnavailable, "cannot find the address of '{}': {}", printable(host),
                      ::gai_strerror(failure));
  }
  char text[NI_MAXHOST];
  failure = ::getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(list);
  if (failure != 0) return make_error(Code::kUnavailable, "no numeric address for '{}'", printable(host));
  return std::string(text);
}

Error unreachable(Error error, const Url& url) {
  bool distrusted = error.word().starts_with("certificate_");  // net/tls/client.h
  return std::move(error)
      .context(fmt::format("cannot reach Atoll at {}", url.authority()))
      .with_word("unreachable")
      .with_hint(distrusted
                     ? "set ATOLL_CA_FILE to its authority's certificate, which 'atoll ca --pem' prints there"
                     : "is it running? try 'atoll status', or start it with 'sudo atoll up'");
}

Code code_of_status(int status) {
  switch (status) {
    case 400:
    case 406:
    case 415: return Code::kInvalid;
    case 401: return Code::kUnauthenticated;
    case 403: return Code::kDenied;
    case 404: return Code::kNotFound;
    case 409: return Code::kConflict;
    case 413: return Code::kTooLarge;
    case 429: return Code::kExhausted;
    case 501: return Code::kUnsupported;
    case 502:
    case 503: return Code::kUnavailable;
    case 504: return Code::kDeadline;
    case 507: return Code::kNoSpace;
    default: return Code::kInternal;
  }
}

// The server's hint speaks to programmers of HTTP clients.
constexpr char kKeyHint[] =
    "keys come from ATOLL_API_KEY or E2B_API_KEY where an address is set, too, else from what 'sudo atoll "
    "up' "
    "has stored; run it again to store a good one";

}  // namespace

const json::value* find_at(const json::value& value, std::string_view key) {
  const json::object* object = value.if_object();
  return object != nullptr ? object->if_contains(key) : nullptr;
}

std::string text_at(const json::value& value, std::string_view key, std::string_view fallback) {
  const json::value* found = find_at(value, key);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string(fallback);
}

std::int64_t number_at(const json::value& value, std::string_view key, std::int64_t fallback) {
  const json::value* found = find_at(value, key);
  if (found == nullptr) return fallback;
  if (found->is_string())
    return parse_number<std::int64_t>(std::string_view(found->as_string())).value_or(fallback);
  boost::system::error_code failure;
  auto number = found->to_number<std::int64_t>(failure);
  return failure ? fallback : number;
}

double real_at(const json::value& value, std::string_view key, double fallback) {
  const json::value* found = find_at(value, key);
  boost::system::error_code failure;
  double number = found != nullptr ? found->to_number<double>(failure) : fallback;
  return failure ? fallback : number;
}

bool flag_at(const json::value& value, std::string_view key, bool fallback) {
  const json::value* found = find_at(value, key);
  return found != nullptr && found->is_bool() ? found->as_bool() : fallback;
}

Error error_of_answer(int status, std::string_view body, std::string_view what) {
  boost::system::error_code failure;
  json::value parsed = json::parse(body, failure);
  if (failure) parsed = nullptr;
  std::string told = printable(text_at(parsed, "message"));
  // Which call it was helps with our own failures; what the person did wrong is told in full by the message.
  bool own_words = status < 500 && !told.empty();
  if (told.empty()) told = fmt::format("the server answered {}", status);
  std::string message = own_words ? told : fmt::format("{}: {}", what, told);
  std::string hint = status == 401 ? kKeyHint : printable(text_at(parsed, "hint"));
  std::string word = printable(text_at(parsed, "error_code", text_at(parsed, "code")));
  return Error(code_of_status(status), std::move(message)).with_word(word).with_hint(hint);
}

Result<std::shared_ptr<ApiClient>> ApiClient::open(Session& session, const std::string& instance) {
  TRY(Target target, find_target(instance));
  TRY(Url api, parse_url(target.api_url));
  Url sandbox = sandbox_url_of(api);
  if (!target.sandbox_url.empty()) {
    TRY(sandbox, parse_url(target.sandbox_url));
  }
  return std::make_shared<ApiClient>(session, std::move(target), std::move(api), std::move(sandbox));
}

ApiClient::ApiClient(Session& session, Target target, Url api, Url sandbox)
    : session_(session),
      target_(std::move(target)),
      api_url_(std::move(api)),
      sandbox_url_(std::move(sandbox)) {
  api_ = http::make_client(connector(api_url_));
  sandbox_ = http::make_client(connector(sandbox_url_));
}

http::Connector ApiClient::connector(Url url) {
  return [this, url = std::move(url)] { return connect(url); };
}

Task<Result<net::StreamPtr>> ApiClient::connect(Url url) {
  auto look_up = [host = url.host] { return resolve(host); };
  auto address = co_await session_.blocking().run(look_up);
  if (!address.ok()) co_return std::move(address).error();
  net::Endpoint endpoint{*address, url.port};
  net::ConnectOptions options;
  options.timeout = kConnectLimit;
  auto stream = co_await net::connect_tcp(endpoint, options);
  if (!stream.ok()) co_return unreachable(std::move(stream).error(), url);
  if (!url.tls) co_return std::move(*stream);
  std::string authority;
  if (!target_.ca_file.empty()) {
    auto pem = sys::read_file(target_.ca_file, kMiB);
    if (!pem.ok()) co_return std::move(pem).error().with_hint("'atoll ca' tells where the certificate is");
    authority = std::move(*pem);
  }
  net::StreamPtr plain = std::move(*stream);
  auto secure = co_await net::tls_connect(std::move(plain), url.host, authority, kConnectLimit);
  if (!secure.ok()) co_return unreachable(std::move(secure).error(), url);
  co_return std::move(*secure);
}

Task<Result<ApiReply>> ApiClient::call(std::string method, std::string path,
                                       std::optional<json::value> body) {
  http::RequestHead head;
  head.method = method;
  head.target = api_url_.path + path;
  head.authority = api_url_.authority();
  head.headers.add("x-api-key", target_.api_key.reveal());
  head.headers.add("user-agent", "atoll/" ATOLL_VERSION);
  std::string payload;
  if (body) {
    payload = json::serialize(*body);
    head.headers.add("content-type", "application/json");
    head.content_length = payload.size();
    head.has_body = true;
  }
  auto answer = co_await http::fetch(api_, std::move(head), std::move(payload), kMaxAnswer);
  if (!answer.ok()) co_return std::move(answer).error();
  std::string what = fmt::format("{} {}", method, path.substr(0, path.find('?')));
  if (answer->head.status >= 400) co_return error_of_answer(answer->head.status, answer->body, what);
  ApiReply reply;
  reply.status = answer->head.status;
  reply.next_token = std::string(answer->head.headers.find("x-next-token").value_or(""));
  if (answer->body.empty()) co_return reply;
  boost::system::error_code failure;
  reply.body = json::parse(answer->body, failure);
  if (failure)
    co_return make_error(Code::kCorrupt, "{}: the answer is not JSON: {}", what, failure.message());
  co_return reply;
}

namespace {
json::array* items_of(json::value& body, std::string_view path) {
  if (json::array* items = body.if_array()) return items;
  path = path.substr(0, path.find('?'));
  json::object* object = body.if_object();
  json::value* found = object ? object->if_contains(path.substr(path.rfind('/') + 1)) : nullptr;
  return found ? found->if_array() : nullptr;
}
}  // namespace

Task<Result<json::array>> ApiClient::list(std::string path) {
  json::array all;
  std::string token;
  do {
    std::string page = path;
    if (!token.empty())
      page +=
          (path.find('?') == std::string::npos ? "?" : "&") + ("nextToken=" + http::percent_encode(token));
    CO_TRY(ApiReply reply, co_await call("GET", page));
    json::array* items = items_of(reply.body, path);
    if (items == nullptr) co_return make_error(Code::kCorrupt, "GET {}: the answer is no list", path);
    for (json::value& item : *items) all.push_back(std::move(item));
    token = reply.next_token;
  } while (!token.empty() && all.size() < kMaxListed);
  co_return all;
}

Task<Result<std::unique_ptr<http::ClientExchange>>> ApiClient::start_in_sandbox(std::string sandbox,
                                                                                std::uint16_t port,
                                                                                http::RequestHead head) {
  head.authority = sandbox_url_.authority();
  head.target = sandbox_url_.path + head.target;
  head.headers.add("e2b-sandbox-id", sandbox);
  head.headers.add("e2b-sandbox-port", fmt::format("{}", port));
  head.headers.add("user-agent", "atoll/" ATOLL_VERSION);
  auto exchange = co_await sandbox_->start(std::move(head));
  if (exchange.ok()) (*exchange)->set_idle_limit(kAnswerLimit);
  co_return exchange;
}

}  // namespace atl::cli
