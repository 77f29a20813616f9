// SPDX-License-Identifier: Apache-2.0
//
// ApiWorld: the API over real HTTP in front of a World. Every answer is held against api/openapi.yaml.
#pragma once

#include <set>

#include "api/router.h"
#include "http/client.h"
#include "net/tcp.h"
#include "support/control_world.h"
#include "support/openapi.h"

namespace atl::test {

struct ApiAnswer {
  int status = 0;
  http::Headers headers;
  std::string text;
  json::value body;
  std::string header(std::string_view name) const { return std::string(headers.find(name).value_or("")); }
  std::string word() const {
    return body.is_object() && body.as_object().contains("error_code")
               ? std::string(body.at("error_code").as_string())
               : "";
  }
  std::string message() const {
    return body.is_object() && body.as_object().contains("message")
               ? std::string(body.at("message").as_string())
               : "";
  }
};

class ApiWorld {
 public:
  explicit ApiWorld(control::ServiceOptions options = {})
      : world(std::move(options)),
        services{
            *world.service, *world.catalog, *world.identity, world.clock, {"atoll.localhost:7400", "0.1.0"}},
        router(services, api::all_routes()),
        scope_(world.io.get_executor()) {
    std::ifstream(world.path("control/bootstrap.key")) >> admin_key;
    world.add_template("base", kBuild, 0);
    world.connect();
    client_ = http::make_client([this] { return connect(); });
  }
  ~ApiWorld() {
    client_->close_idle();
    scope_.cancel();
    world.run(scope_.join());
  }

  ApiAnswer call(const std::string& method, const std::string& target, std::string body = "",
                 std::string key = "", std::vector<http::Header> headers = {}) {
    http::RequestHead head;
    head.method = method;
    head.target = target;
    head.authority = "127.0.0.1:7400";
    if (key != "none") head.headers.add("x-api-key", key.empty() ? admin_key : key);
    for (auto& header : headers) head.headers.add(header.name, header.value);
    head.has_body = !body.empty();  // without a length, as E2B clients send it: chunked
    auto fetched = world.run(http::fetch(client_, std::move(head), std::move(body), 64 << 20));
    EXPECT_TRUE(fetched.ok()) << fetched.error().message();
    ApiAnswer answer;
    if (!fetched) return answer;
    answer.status = fetched->head.status;
    answer.headers = fetched->head.headers;
    answer.text = fetched->body;
    boost::system::error_code error;
    bool is_json = answer.header("content-type") == "application/json";
    if (!answer.text.empty() && is_json) answer.body = json::parse(answer.text, error);
    EXPECT_FALSE(error) << answer.text;
    hold_to_spec(method, target.substr(0, target.find('?')), answer);
    return answer;
  }
  // A tenant of its own with a member's key.
  std::string other_key(const std::string& name = "other") {
    auto tenant = call("POST", "/v1/tenants", R"({"name":")" + name + R"("})");
    EXPECT_EQ(tenant.status, 201) << tenant.text;
    std::string id(tenant.body.at("id").as_string());
    auto made = call("POST", "/v1/keys", R"({"name":"k","tenant":")" + id + R"("})");
    EXPECT_EQ(made.status, 201) << made.text;
    return std::string(made.body.at("key").as_string());
  }
  std::string create(const std::string& extra = "", std::string key = "") {
    auto made = call("POST", "/v2/sandboxes", R"({"templateID":"base")" + extra + "}", key);
    EXPECT_EQ(made.status, 201) << made.text;
    return made.status == 201 ? std::string(made.body.at("sandboxID").as_string()) : "";
  }

  // A client's connection over TCP; what it does not do itself is not done for it.
  Task<Result<net::StreamPtr>> connect_tcp() {
    CO_TRY(auto listener, net::listen_tcp(world.io.get_executor(), {"127.0.0.1", 0}));
    net::Endpoint endpoint{"127.0.0.1", listener->port()};
    net::ConnectOptions options;
    CO_TRY(auto client, co_await net::connect_tcp(endpoint, options));
    CO_TRY(auto server, co_await listener->accept());
    scope_.spawn("api connection", serve(std::move(server)));
    co_return std::move(client);
  }

  World world;
  const OpenApi& spec = openapi();
  api::Services services;
  api::Router router;
  std::string admin_key;
  std::set<std::string> seen;  // "GET /health 204"

 private:
  // Reading it takes longer than most tests.
  static const OpenApi& openapi() {
    static const OpenApi once(ATOLL_OPENAPI);
    return once;
  }
  Task<Result<net::StreamPtr>> connect() {
    auto [mine, theirs] = net::stream_pair(world.io.get_executor());
    scope_.spawn("api connection", serve(std::move(mine)));
    co_return std::move(theirs);
  }
  Task<> serve(net::StreamPtr stream) {
    http::ServerLimits limits;
    http::Handler handler = [this](http::Exchange& exchange) { return router.handle(exchange); };
    co_await http::serve_http1(std::move(stream), std::string(), false, limits, handler);
  }

  // The most literal pattern of the spec that fits the path.
  std::string pattern_of(const std::string& path) const {
    std::string best;
    for (const auto& [text, item] : spec.paths()) {
      bool fewer = std::count(text.begin(), text.end(), '{') < std::count(best.begin(), best.end(), '{');
      if ((best.empty() || fewer) && fits(path, text)) best = text;
    }
    return best;
  }
  // A "{name}" of the pattern fits one or more characters that are no '/'.
  static bool fits(std::string_view path, std::string_view pattern) {
    while (!pattern.empty()) {
      if (pattern.front() == '{') {
        std::size_t length = std::min(path.find('/'), path.size());
        if (length == 0) return false;
        path.remove_prefix(length);
        pattern.remove_prefix(pattern.find('}') + 1);
      } else if (path.empty() || path.front() != pattern.front()) {
        return false;
      } else {
        path.remove_prefix(1);
        pattern.remove_prefix(1);
      }
    }
    return path.empty();
  }

  void hold_to_spec(const std::string& method, const std::string& path, const ApiAnswer& answer) {
    const json::object* operation = spec.operation(pattern_of(path), method);
    if (!operation) return;  // 404 and 405 of the router itself
    if (answer.word() == "bad_url" || answer.word() == "too_large") return;  // what any call may answer
    std::string status = std::to_string(answer.status);
    std::string what = method + " " + path + " " + status;
    seen.insert(method + " " + pattern_of(path) + " " + status);
    const json::value* entry = operation->at("responses").as_object().if_contains(status);
    ASSERT_TRUE(entry) << what << " is not in openapi.yaml: " << answer.text;
    const json::object& response = spec.resolve(*entry);
    if (const json::value* headers = response.if_contains("headers")) {
      for (const auto& [name, header] : headers->as_object()) {
        bool required = header.as_object().contains("required");
        EXPECT_TRUE(!required || answer.headers.find(std::string(name)))
            << what << " lacks header " << std::string(name);
      }
    }
    const json::value* content = response.if_contains("content");
    if (!content) {
      EXPECT_EQ(answer.text, "") << what;
      return;
    }
    if (content->as_object().contains("text/plain")) {
      EXPECT_TRUE(answer.header("content-type").starts_with("text/plain;")) << what;
      return;
    }
    EXPECT_EQ(answer.header("content-type"), "application/json") << what;
    EXPECT_EQ(spec.check(answer.body, content->at("application/json").at("schema")), "") << what << "\n"
                                                                                         << answer.text;
  }

  async::Scope scope_;
  std::shared_ptr<http::Client> client_;
};

}  // namespace atl::test
