// SPDX-License-Identifier: Apache-2.0
//
// Router: the API's one table of routes, and what is the same for all of them: who asks, how large a body may
// be, how errors look. Every route of Atoll's API is a line in the table (api/routes.cc); tests are generated
// from it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/json.h"
#include "control/sandbox_service.h"
#include "control/vault_link.h"
#include "http/server.h"

namespace atl::api {

using async::Task;

inline constexpr std::size_t kMaxBody = 1 << 20;
inline constexpr char kEnvdVersion[] = "0.6.13";  // the protocol level of the guest daemon (e2b-protocol §10)
inline constexpr char kClientId[] = "atoll";      // deprecated field that the clients' schema requires

struct Config {
  std::string domain;   // with the port, as clients see it: "atoll.localhost:7400"
  std::string version;  // of this program
};

// What handlers work with. All live on the control loop.
struct Services {
  control::SandboxService& sandboxes;
  control::Catalog& catalog;
  control::Identity& identity;
  Clock& clock;
  Config config;
  control::VaultLink vault{nullptr};  // to the gateway, where there is one
};

// One request as a handler sees it.
struct Call {
  const http::RequestHead* head = nullptr;
  std::vector<std::string> params;  // from the path, decoded, in order
  std::vector<std::pair<std::string, std::string>> query;
  json::value body;  // an object; empty when the request had none
  control::Principal who;

  const std::string& tenant() const { return who.tenant; }
  // The id of the path without the "-<client id>" that old clients append.
  std::string sandbox_id(std::size_t param = 0) const;
  std::optional<std::string> query_text(std::string_view key) const { return http::query_value(query, key); }
  // A query number within bounds; nullopt when absent, kInvalid when wrong.
  Result<std::optional<std::int64_t>> query_number(std::string_view key, std::int64_t min,
                                                   std::int64_t max) const;
};

struct Answer {
  int status = 200;
  http::Headers headers;
  std::string body;                      // JSON; empty for 204
  std::function<void()> on_undelivered;  // the client was gone before it could have the answer
};
Answer json_answer(int status, const json::value& body);
Answer no_content();
// What an error answer says, with the code that belongs to it.
json::object error_json(const Error& error);
// The status follows from the error's code, unless it is given.
Answer error_answer(const Error& error, std::optional<int> exact_status = std::nullopt);

enum class Auth : std::uint8_t { kNone, kKey, kAdmin };
enum class Body : std::uint8_t { kNone, kOptional, kRequired };
using Action = Task<Result<Answer>> (*)(Services&, Call&);

struct Route {
  const char* method;
  const char* pattern;  // "/sandboxes/{sandboxID}/timeout"
  Auth auth;
  Body body;
  Action action;
};

class Router {
 public:
  Router(Services& services, std::vector<Route> routes);
  // Answers one request of the API.
  Task<> handle(http::Exchange& exchange);
  const std::vector<Route>& routes() const { return routes_; }

 private:
  struct Match {
    const Route* route = nullptr;
    std::vector<std::string> params;  // still encoded
    std::string allowed;              // methods of the path, for 405
  };
  Task<Result<Answer>> answer(http::Exchange& exchange);
  Result<control::Principal> authenticate(const http::RequestHead& head) const;
  Match match(const http::RequestHead& head) const;
  static Task<Result<json::value>> read_body(http::Exchange& exchange, Body wanted);

  Services& services_;
  std::vector<Route> routes_;
  std::vector<std::vector<std::string>> segments_;  // of each route's pattern
};

// All routes of this version.
std::vector<Route> all_routes();

}  // namespace atl::api
