// SPDX-License-Identifier: Apache-2.0
//
// The API over real HTTP, with a fake runner and fake guests behind it.
#include <gtest/gtest.h>

#include "support/api_fixture.h"

namespace atl::api {
namespace {

using test::ApiAnswer;
using test::ApiWorld;
using test::kBuild2;
using test::OpenApi;

class ApiTest : public test::ApiFixture {};

TEST_F(ApiTest, CreateHasTheShapeThatClientsNeed) {
  auto made = call("POST", "/v2/sandboxes", R"({"templateID":"base","metadata":{"a":"b"},"unknown":[1,{}]})");
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.body.at("domain"), "atoll.localhost:7400");
  EXPECT_EQ(made.body.at("envdVersion"), "0.6.13");
  EXPECT_EQ(made.body.at("isolation"), "container");
  EXPECT_TRUE(made.body.as_object().contains("envdAccessToken"));
  EXPECT_FALSE(made.body.as_object().contains("trafficAccessToken"));
  std::string id(made.body.at("sandboxID").as_string());
  auto got = call("GET", "/sandboxes/" + id);
  ASSERT_EQ(got.status, 200);
  EXPECT_EQ(got.body.at("state"), "running");
  EXPECT_EQ(got.body.at("metadata").at("a"), "b");
  EXPECT_EQ(got.body.at("envdAccessToken"), made.body.at("envdAccessToken"));
  EXPECT_EQ(call("GET", "/sandboxes/" + id + "-client").status, 200) << "ids may carry a client id";
}

TEST_F(ApiTest, TheTwoGenerationsDifferInTheirDefaults) {
  auto seconds = [&](const ApiAnswer& made) {
    auto got = call("GET", "/sandboxes/" + std::string(made.body.at("sandboxID").as_string()));
    auto end = parse_rfc3339(std::string(got.body.at("endAt").as_string()));
    return (*end - *parse_rfc3339(std::string(got.body.at("startedAt").as_string()))).count() / 1000;
  };
  auto v1 = call("POST", "/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(seconds(v1), 15);
  EXPECT_FALSE(v1.body.as_object().contains("envdAccessToken"));
  EXPECT_TRUE(call("POST", "/sandboxes", R"({"templateID":"base","secure":true})")
                  .body.as_object()
                  .contains("envdAccessToken"));
  auto v2 = call("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(seconds(v2), 300);
}

TEST_F(ApiTest, WrongFieldsAreNamedByTheirPath) {
  struct Case {
    const char* body;
    const char* path;
  };
  const Case cases[] = {
      {R"({})", "templateID"},
      {R"({"templateID":5})", "templateID"},
      {R"({"templateID":"base","timeout":"10"})", "timeout"},
      {R"({"templateID":"base","timeout":1.5})", "timeout"},
      {R"({"templateID":"base","timeout":0})", "timeout"},
      {R"({"templateID":"base","timeout":-1})", "timeout"},
      {R"({"templateID":"base","timeout":86401})", "timeout"},
      {R"({"templateID":"base","timeout":18446744073709551615})", "timeout"},
      {R"({"templateID":"base","metadata":[]})", "metadata"},
      {R"({"templateID":"base","metadata":{"k":1}})", "metadata.k"},
      {R"({"templateID":"base","metadata":{"k":null}})", "metadata.k"},
      {R"({"templateID":"base","envVars":{"A=B":"1"}})", "envVars.A=B"},
      {R"({"templateID":"base","envVars":{"A":"x\u0000y"}})", "envVars.A"},
      {R"({"templateID":"base","secure":"yes"})", "secure"},
      {R"({"templateID":"base","allow_internet_access":1})", "allow_internet_access"},
      {R"({"templateID":"base","network":{"allowOut":"1.2.3.4"}})", "network.allowOut"},
      {R"({"templateID":"base","labels":"git"})", "labels"},
      {R"({"templateID":"base","envVars":{"ATOLL_LABEL":"git"}})", "envVars.ATOLL_LABEL"},
      {R"({"templateID":"base","labels":["git","a b"]})", "labels[1]"},
      {R"({"templateID":"base","labels":["git","git"]})", "labels[1]"},
      {R"({"templateID":"base","network":{"allowOut":[4]}})", "network.allowOut[0]"},
      {R"({"templateID":"base","network":{"allowOut":["1.2.3.4","300.1.1.1"]}})", "network.allowOut[1]"},
      {R"({"templateID":"base","network":{"allowOut":["2130706433"]}})", "network.allowOut[0]"},
      {R"({"templateID":"base","network":{"allowOut":["example.com"]}})", "network.allowOut[0]"},
      {R"({"templateID":"base","network":{"denyOut":["example.com"]}})", "network.denyOut[0]"},
      {R"({"templateID":"base","network":{"maskRequestHost":"a\r\nb: c"}})", "network.maskRequestHost"},
      {R"({"templateID":"base","network":{"rules":{"h.com":[{},{}]}}})", "network.rules.h.com"},
      {R"({"templateID":"base","network":{"rules":{"bad host":[{}]}}})", "network.rules.bad host"},
      {R"({"templateID":"base","autoPauseMemory":false})", "autoPauseMemory"},
      {R"({"templateID":"base","autoResume":{"enabled":1}})", "autoResume.enabled"},
      {R"({"templateID":"base","isolation":"strong"})", "isolation"},
      {R"({"templateID":"base@weak"})", "templateID"},
      {R"({"templateID":"base@container","isolation":"gvisor"})", "templateID"},
      {R"({"templateID":"base@@container"})", "templateID"},
      {R"({"templateID":"Base!"})", "template name"},
  };
  for (const auto& item : cases) {
    auto answer = call("POST", "/v2/sandboxes", item.body);
    EXPECT_EQ(answer.status, 400) << item.body << answer.text;
    EXPECT_EQ(answer.message().find(item.path), 0u) << item.body << "\n" << answer.message();
    EXPECT_EQ(answer.body.at("code"), 400);
  }
  auto public_traffic =
      call("POST", "/sandboxes", R"({"templateID":"base","network":{"allowPublicTraffic":false}})");
  EXPECT_EQ(public_traffic.message().find("network.allowPublicTraffic"), 0u);
  EXPECT_TRUE(api_.world.runner.entries.empty()) << "nothing was made";
}

// security.md A10: each of these means different things to different readers.
TEST_F(ApiTest, AmbiguousJsonIsRefused) {
  std::string deep = R"({"templateID":"base","x":)" + std::string(40, '[') + std::string(40, ']') + "}";
  const std::string bodies[] = {"",
                                "x",
                                "[]",
                                "null",
                                "5",
                                "\"a\"",
                                R"({"templateID":"base")",
                                R"({"templateID":"base"} x)",
                                R"({"templateID":"base","templateID":"other"})",
                                R"({"templateID":"base","metadata":{"a":"1","\u0061":"2"}})",
                                R"({"templateID":"base","timeout":NaN})",
                                R"({"templateID":"base","timeout":Infinity})",
                                R"({"templateID":"base",})",
                                R"({"templateID":"base"/*c*/})",
                                "\xef\xbb\xbf{\"templateID\":\"base\"}",
                                "{\"templateID\":\"ba\xff\"}",
                                R"({"templateID":"\ud800"})",
                                R"({'templateID':'base'})",
                                R"({"templateID":"base","timeout":010})",
                                deep};
  for (const auto& body : bodies) {
    auto answer = call("POST", "/v2/sandboxes", body);
    EXPECT_EQ(answer.status, 400) << body << answer.text;
    EXPECT_EQ(answer.word(), "invalid_json") << body << answer.text;
  }
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"base","timeout":1e400})").status, 400);
}

TEST_F(ApiTest, ABodyBeyondTheLimitIsRefused) {
  std::string big = R"({"templateID":"base","metadata":{"k":")" + std::string(2 << 20, 'x') + "\"}}";
  EXPECT_EQ(call("POST", "/v2/sandboxes", big).status, 413);
}

TEST_F(ApiTest, WhoIsAskedBeforeWhat) {
  for (const char* path :
       {"/v2/sandboxes", "/sandboxes/i0123456789abcdefghij", "/no/such/route", "/v1/status"}) {
    auto answer = call("GET", path, "", "none");
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_EQ(answer.word(), "unauthenticated");
    EXPECT_EQ(call("GET", path, "", "e2b_0000000000000000000000000000000000000000").status, 401) << path;
  }
  EXPECT_EQ(call("GET", "/health", "", "none").status, 204);
  EXPECT_EQ(call("GET", "/teams", "", "none", {{"authorization", "Bearer " + api_.admin_key}}).status, 200);
  EXPECT_EQ(call("GET", "/teams", "", "", {{"x-api-key", api_.admin_key}}).status, 401)
      << "two keys are ambiguous";
}

TEST_F(ApiTest, UnknownRoutesAndMethods) {
  for (const char* path :
       {"/", "/nope", "/sandboxes/", "/sandboxes//timeout", "/v2/sandboxes/x/y/z", "//health"}) {
    auto answer = call("GET", path);
    EXPECT_EQ(answer.status, 404) << path << answer.text;
    EXPECT_EQ(answer.word(), "no_such_route") << path;
  }
  auto wrong = call("PATCH", "/v2/sandboxes");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST, GET");
  EXPECT_EQ(call("GET", "/sandboxes/%zz").status, 400);
  EXPECT_EQ(call("GET", "/sandboxes/%ff").status, 400);
  EXPECT_EQ(call("GET", "/sandboxes/..%2f..%2fetc").status, 404);
}

TEST_F(ApiTest, ListsHaveFiltersOrderAndPages) {
  std::vector<std::string> made;
  for (int i = 0; i < 5; ++i) {
    made.push_back(api_.create(fmt::format(R"(,"timeout":3600,"metadata":{{"n":"{}","k":"v w&ü=1"}})", i)));
    advance(std::chrono::milliseconds(10));
  }
  std::vector<std::string> newest(made.rbegin(), made.rend());
  auto all = call("GET", "/v2/sandboxes");
  EXPECT_EQ(ids(all), newest);
  EXPECT_EQ(all.header("x-total-running"), "5");
  EXPECT_EQ(all.header("x-next-token"), "");
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?order=asc")), made);
  EXPECT_EQ(ids(call("GET", "/sandboxes")).size(), 5u);
  // Pages in both orders, until there is no further token.
  for (const char* order : {"asc", "desc"}) {
    std::vector<std::string> seen;
    std::string token;
    do {
      auto page = call("GET", fmt::format("/v2/sandboxes?limit=2&order={}&nextToken={}", order, token));
      for (auto& id : ids(page)) seen.push_back(id);
      token = page.header("x-next-token");
    } while (!token.empty());
    EXPECT_EQ(seen, order == std::string("asc") ? made : newest);
  }
  // As the client sends it (e2b-protocol 7.5): keys and values encoded, the whole encoded again, and once
  // more as a query.
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?metadata=n%3D2%26k%3Dv%252520w%252526%2525C3%2525BC%25253D1")),
            std::vector<std::string>{made[2]});
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?metadata=n%3D9")).size(), 0u);
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?template=base")).size(), 5u);
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?template=nope")).size(), 0u);
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?state=paused")).size(), 0u);
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?state=running,paused")).size(), 5u);
  auto row = call("GET", "/sandboxes/" + made[3]);
  std::string started(row.body.at("startedAt").as_string());
  EXPECT_EQ(ids(call("GET", "/v2/sandboxes?order=asc&startedAfter=" + http::percent_encode(started))),
            (std::vector<std::string>{made[3], made[4]}));
  EXPECT_EQ(ids(call("GET",
                     "/v2/"
                     "sandboxes?limit=2&startedAfter=1970-01-01T00%3A00%3A00.000Z&template=base&order=asc&"
                     "state=running,paused"))
                .size(),
            2u);
  for (const char* bad :
       {"limit=0", "limit=101", "limit=x", "order=up", "state=asleep", "startedAfter=yesterday",
        "nextToken=AAAA", "nextToken=%21", "metadata=novalue", "metadata=%2500", "limit=%zz"}) {
    EXPECT_EQ(call("GET", std::string("/v2/sandboxes?") + bad).status, 400) << bad;
  }
}

TEST_F(ApiTest, TimeoutConnectAndRefresh) {
  std::string id = api_.create(R"(,"timeout":100)");
  auto left = [&] {
    auto got = call("GET", "/sandboxes/" + id);
    return (*parse_rfc3339(std::string(got.body.at("endAt").as_string())) - api_.world.clock.now()).count() /
           1000;
  };
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":50})").status, 204);
  EXPECT_EQ(left(), 50);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/connect", R"({"timeout":20})").status, 200);
  EXPECT_EQ(left(), 50) << "connect only extends";
  EXPECT_EQ(call("POST", "/v2/sandboxes/" + id + "/connect").status, 200);
  EXPECT_EQ(left(), 300);
  EXPECT_EQ(call("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":400,"memory":false})").status,
            200);
  EXPECT_EQ(left(), 400);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/refreshes", R"({"duration":3600})").status, 204);
  EXPECT_EQ(left(), 3600);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/refreshes").status, 204);
  EXPECT_EQ(left(), 3600);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/connect", "{}").status, 400)
      << "the old form requires a timeout";
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/refreshes", R"({"duration":3601})").status, 400);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/timeout", R"({})").status, 400);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":86401})").status, 400);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/resume", R"({"timeout":5})").status, 409);
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":0})").status, 204);
  advance(Millis(0));
  EXPECT_EQ(call("GET", "/sandboxes/" + id).status, 404);
}

TEST_F(ApiTest, KillOnceThenNotFound) {
  std::string id = api_.create();
  EXPECT_EQ(call("DELETE", "/sandboxes/" + id).status, 204);
  auto again = call("DELETE", "/sandboxes/" + id);
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.body.at("code"), 404) << "clients look at the code in the body";
  auto own = call("GET", "/v1/sandboxes/" + id);
  EXPECT_EQ(own.body.at("state"), "stopped");
  EXPECT_EQ(own.body.at("outcome"), "killed");
}

TEST_F(ApiTest, NetworkRulesAreReplacedAsAWhole) {
  std::string id = api_.create(R"(,"network":{"allowOut":["8.8.8.8"],"denyOut":["0.0.0.0/0","9.9.9.0/24"]})");
  auto rules = [&]() -> model::NetworkRules& { return api_.world.runner.entries[id].rules; };
  EXPECT_FALSE(rules().internet);
  EXPECT_EQ(rules().allow.size(), 1u);
  EXPECT_EQ(call("GET", "/sandboxes/" + id).body.at("network").at("denyOut"),
            json::parse(R"(["9.9.9.0/24","0.0.0.0/0"])"));
  EXPECT_EQ(call("PUT", "/sandboxes/" + id + "/network", R"({"denyOut":["1.2.3.4"]})").status, 204);
  EXPECT_TRUE(rules().internet);
  EXPECT_TRUE(rules().allow.empty());
  EXPECT_EQ(rules().deny.size(), 1u);
  EXPECT_EQ(call("PUT", "/sandboxes/" + id + "/network", R"({"allow_internet_access":false})").status, 204);
  EXPECT_FALSE(rules().internet);
  EXPECT_EQ(call("GET", "/sandboxes/" + id).body.at("allowInternetAccess"), false);
  auto domains = call("PUT", "/sandboxes/" + id + "/network",
                      R"({"allowOut":["*.example.com"],"denyOut":["0.0.0.0/0"]})");
  EXPECT_EQ(domains.status, 501);
  EXPECT_EQ(domains.word(), "gateway_off");
  EXPECT_EQ(call("PUT", "/sandboxes/" + id + "/network", R"({"allowOut":["example.com"]})").status, 400);
  EXPECT_FALSE(rules().internet) << "a refused update changes nothing";
  std::string many = R"({"denyOut":[)";
  for (int i = 0; i < 65; ++i) many += fmt::format("{}\"1.1.1.{}\"", i ? "," : "", i);
  EXPECT_EQ(call("PUT", "/sandboxes/" + id + "/network", many + "]}").status, 400);
}

TEST_F(ApiTest, PrivateTrafficHasAToken) {
  auto made =
      call("POST", "/v2/sandboxes",
           R"({"templateID":"base","network":{"allowPublicTraffic":false,"maskRequestHost":"x:${PORT}"}})");
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_TRUE(made.body.as_object().contains("trafficAccessToken"));
  auto route = api_.world.service->find(std::string(made.body.at("sandboxID").as_string()));
  ASSERT_TRUE(route);
  EXPECT_TRUE(route->traffic_token.matches(std::string(made.body.at("trafficAccessToken").as_string())));
  EXPECT_EQ(route->mask_request_host, "x:${PORT}");
}

TEST_F(ApiTest, IsolationIsGivenAsAskedOrRefused) {
  for (const char* body :
       {R"({"templateID":"base@container"})", R"({"templateID":"base","isolation":"container"})"}) {
    EXPECT_EQ(call("POST", "/v2/sandboxes", body).status, 201) << body;
  }
  EXPECT_EQ(
      call("POST", "/v2/sandboxes", R"({"templateID":"base"})", "", {{"x-atoll-isolation", "container"}})
          .status,
      201);
  std::size_t before = api_.world.runner.entries.size();
  for (const char* tier : {"gvisor", "microvm"}) {
    auto refused =
        call("POST", "/v2/sandboxes", fmt::format(R"({{"templateID":"base","isolation":"{}"}})", tier));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.word(), "isolation_unavailable");
    EXPECT_EQ(refused.header("retry-after"), "1");
    EXPECT_EQ(
        call("POST", "/v2/sandboxes", R"({"templateID":"base"})", "", {{"x-atoll-isolation", tier}}).status,
        503);
  }
  EXPECT_EQ(api_.world.runner.entries.size(), before);
}

TEST_F(ApiTest, LaterCallsSaySo) {
  std::string id = api_.create();
  for (const Route& route : all_routes()) {
    const auto* operation = api_.spec.operation(route.pattern, route.method);
    if (operation->at("tags").as_array().at(0) != "later") continue;
    std::string path = route.pattern;
    RE2::GlobalReplace(&path, R"(\{sandboxID\})", id);
    RE2::GlobalReplace(&path, R"(\{[^}]*\})", "x");
    auto answer = call(route.method, path, route.body == Body::kNone ? "" : "{}");
    EXPECT_EQ(answer.status, 501) << path << answer.text;
    EXPECT_EQ(answer.word(), "not_implemented_yet") << path;
    EXPECT_TRUE(answer.body.as_object().contains("hint")) << path;
  }
  for (const char* field : {R"("volumeMounts":[{"name":"a","path":"/a"}])", R"("iam":{"tokens":{"t":{}}})",
                            R"("network":{"egressProxy":{"address":"x:1"}})",
                            R"("network":{"rules":{"h.com":[{"transform":{"headers":{"A":"b"}}}]}})",
                            R"("network":{"httpsPorts":[8443]})"}) {
    auto answer = call("POST", "/v2/sandboxes", fmt::format(R"({{"templateID":"base",{}}})", field));
    EXPECT_EQ(answer.status, 501) << field << answer.text;
  }
  EXPECT_EQ(call("POST", "/v2/sandboxes",
                 R"({"templateID":"base","autoPause":false,"autoResume":{"enabled":false},)"
                 R"("volumeMounts":[],"mcp":{}})")
                .status,
            201);
}

TEST_F(ApiTest, MetricsAndLogs) {
  std::string id = api_.create();
  EXPECT_EQ(call("GET", "/sandboxes/" + id + "/metrics").body.as_array().size(), 0u);
  for (int i = 0; i < 3; ++i) {
    api_.world.run(api_.world.service->sample_metrics());
    api_.world.clock.advance(std::chrono::seconds(5));
  }
  auto all = call("GET", "/sandboxes/" + id + "/metrics");
  ASSERT_EQ(all.body.as_array().size(), 3u);
  auto middle = all.body.at(1).at("timestampUnix").as_int64();
  EXPECT_EQ(call("GET", fmt::format("/sandboxes/{}/metrics?start={}", id, middle)).body.as_array().size(),
            2u);
  EXPECT_EQ(call("GET", fmt::format("/sandboxes/{}/metrics?end={}", id, middle)).body.as_array().size(), 2u);
  EXPECT_EQ(call("GET", fmt::format("/sandboxes/{}/metrics?start=5&end=1", id)).status, 400);
  auto batch = call("GET", "/sandboxes/metrics?sandbox_ids=" + id + ",unknown");
  EXPECT_EQ(batch.body.at("sandboxes").as_object().size(), 1u);
  EXPECT_EQ(call("GET", "/sandboxes/metrics").status, 400);

  EXPECT_EQ(call("DELETE", "/sandboxes/" + id).status, 204);
  auto logs = call("GET", "/sandboxes/" + id + "/logs");
  ASSERT_EQ(logs.status, 200) << "logs outlive the sandbox";
  EXPECT_EQ(logs.body.at("logs").as_array().size(), 2u);
  auto v2 = call("GET", "/v2/sandboxes/" + id + "/logs?direction=backward&limit=1");
  EXPECT_EQ(v2.body.at("logs").at(0).at("message"), "sandbox ended: killed");
  EXPECT_EQ(call("GET", "/v2/sandboxes/" + id + "/logs?search=created").body.at("logs").as_array().size(),
            1u);
  EXPECT_EQ(call("GET", "/v2/sandboxes/" + id + "/logs?level=error").body.at("logs").as_array().size(), 0u);
  EXPECT_EQ(call("GET", "/v2/sandboxes/" + id + "/logs?level=loud").status, 400);
  EXPECT_EQ(call("GET", "/v2/sandboxes/" + id + "/logs?direction=up").status, 400);
}

TEST_F(ApiTest, KeysWorkUntilTheyAreRevoked) {
  auto made = call("POST", "/v1/keys", R"({"name":"ci"})");
  ASSERT_EQ(made.status, 201);
  std::string key(made.body.at("key").as_string());
  EXPECT_TRUE(RE2::FullMatch(key, "e2b_[0-9a-f]{40}"));
  EXPECT_EQ(call("GET", "/teams", "", key).status, 200);
  auto listed = call("GET", "/v1/keys");
  EXPECT_EQ(listed.body.at("keys").as_array().size(), 2u);
  EXPECT_EQ(listed.text.find(key), std::string::npos) << "keys are not shown again";
  std::string id(made.body.at("id").as_string());
  EXPECT_EQ(call("DELETE", "/v1/keys/" + id).status, 204);
  EXPECT_EQ(call("GET", "/teams", "", key).status, 401);
  EXPECT_EQ(call("DELETE", "/v1/keys/" + id).status, 404);
}

TEST_F(ApiTest, AnAdminSeesAndRevokesTheKeysOfOtherTenants) {
  std::string key = api_.other_key();
  std::string mine(call("GET", "/v1/keys").body.at("keys").at(0).at("id").as_string());
  std::string tenant;
  for (const auto& row : api_.world.identity->tenants()) {
    if (row.id != api_.world.tenant) tenant = row.id;
  }
  EXPECT_EQ(call("GET", "/v1/keys?tenant=" + api_.world.tenant, "", key).status, 403);
  EXPECT_EQ(call("GET", "/v1/keys?tenant=nobody").status, 404);
  EXPECT_EQ(call("GET", "/v1/keys?tenant=" + tenant, "", key).status, 200);
  auto listed = call("GET", "/v1/keys?tenant=" + tenant);
  ASSERT_EQ(listed.body.at("keys").as_array().size(), 1u);
  std::string theirs(listed.body.at("keys").at(0).at("id").as_string());
  EXPECT_EQ(call("DELETE", "/v1/keys/" + mine, "", key).status, 404);
  EXPECT_EQ(call("DELETE", "/v1/keys/" + theirs).status, 204);
  EXPECT_EQ(call("GET", "/teams", "", key).status, 401);
}

// security.md A03: a key never makes a stronger one.
TEST_F(ApiTest, AMembersKeyStaysAMembersKey) {
  std::string key = api_.other_key();
  for (const char* path : {"/v1/status", "/v1/tenants"})
    EXPECT_EQ(call("GET", path, "", key).status, 403) << path;
  EXPECT_EQ(call("POST", "/v1/tenants", R"({"name":"x"})", key).status, 403);
  EXPECT_EQ(call("POST", "/v1/templates", R"({})", key).status, 403);
  EXPECT_EQ(call("POST", "/v1/keys", R"({"name":"x","role":"admin"})", key).status, 403);
  EXPECT_EQ(call("POST", "/v1/keys", R"({"name":"x","tenant":")" + api_.world.tenant + R"("})", key).status,
            403);
  EXPECT_EQ(call("POST", "/v1/keys", R"({"name":"x"})", key).status, 201);
  EXPECT_EQ(call("POST", "/v1/keys", R"({"name":"x","role":"root"})", key).status, 400);
  EXPECT_EQ(call("POST", "/v1/keys", R"({})", key).status, 400);
}

struct Id {
  std::string theirs, unknown;
};

// security.md A01, generated from the route table so that no route is forgotten: with another tenant's ids
// every route answers exactly as with ids that do not exist, and nothing of the other tenant changes.
TEST_F(ApiTest, AnotherTenantsIdsAnswerAsUnknownOnes) {
  std::string id = api_.create();
  api_.world.run(api_.world.service->sample_metrics());
  auto hidden = call("POST", "/v1/templates", fmt::format(R"({{"name":"hidden","buildId":"{}"}})", kBuild2));
  ASSERT_EQ(hidden.status, 201) << hidden.text;
  std::string template_id(hidden.body.at("templateID").as_string());
  std::string key_id(call("GET", "/v1/keys").body.at("keys").at(0).at("id").as_string());
  auto snapshot = call("POST", "/sandboxes/" + id + "/snapshots", R"({"name":"mine"})");
  std::string snapshot_id(snapshot.body.at("id").as_string());
  std::string other = api_.other_key();
  const std::map<std::string, Id> kIds = {{"sandboxID", {id, "i" + std::string(20, '0')}},
                                          {"templateID", {template_id, std::string(20, '0')}},
                                          {"alias", {"hidden", "nobody"}},
                                          {"snapshotID", {snapshot_id, std::string(20, '0')}},
                                          {"keyID", {key_id, "00000000-0000-0000-0000-000000000000"}},
                                          {"hash", {"x", "x"}},
                                          {"buildID", {kBuild2, "00000000-0000-0000-0000-000000000000"}},
                                          {"secretID", {"x", "x"}},    // of the vault, which is asked
                                          {"bindingID", {"x", "x"}},   // for the tenant: secrets_test.cc
                                          {"name", {"x", "x"}},        // of a service, the same
                                          {"approvalID", {"x", "x"}},  // approvals_test.cc
                                          {"volumeID", {"x", "x"}}};
  auto mask = [](std::string text, const std::string& word) {
    for (std::size_t at; !word.empty() && (at = text.find(word)) != std::string::npos;)
      text.replace(at, word.size(), "ID");
    return text;
  };
  int tried = 0;
  for (const Route& route : all_routes()) {
    std::string pattern = route.pattern;
    if (route.auth != Auth::kKey || pattern.find('{') == std::string::npos) continue;
    std::string theirs = pattern, unknown = theirs;
    Id used;
    for (const auto& [name, value] : kIds) {
      if (pattern.find("{" + name + "}") == std::string::npos) continue;
      RE2::GlobalReplace(&theirs, "\\{" + name + "\\}", value.theirs);
      RE2::GlobalReplace(&unknown, "\\{" + name + "\\}", value.unknown);
      if (value.theirs != value.unknown && name != "buildID") used = value;
    }
    ASSERT_EQ(theirs.find('{'), std::string::npos) << pattern << " has an id that this test does not know";
    std::string body = route.body == Body::kNone ? "" : R"({"timeout":10,"count":1,"idleTimeout":60})";
    auto a = call(route.method, theirs, body, other);
    auto b = call(route.method, unknown, body, other);
    EXPECT_EQ(a.status, b.status) << route.method << " " << pattern;
    bool no_vault = a.word() == "gateway_unavailable";
    EXPECT_TRUE(a.status == 404 || a.status == 501 || no_vault)
        << route.method << " " << pattern << " " << a.text;
    EXPECT_EQ(mask(a.text, used.theirs), mask(b.text, used.unknown)) << route.method << " " << pattern;
    ++tried;
  }
  EXPECT_GT(tried, 20);
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"hidden"})", other).status, 404);
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":")" + template_id + R"("})", other).status, 404);
  for (const std::string& reference : {snapshot_id, snapshot_id + ":default"})
    EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":")" + reference + R"("})", other).status, 404);
  EXPECT_EQ(call("DELETE", "/templates/" + snapshot_id, "", other).status, 404);
  EXPECT_EQ(call("GET", "/sandboxes/metrics?sandbox_ids=" + id, "", other).text, R"({"sandboxes":{}})");
  for (const char* list : {"/v2/sandboxes", "/sandboxes", "/v1/sandboxes?ended=true", "/v1/events",
                           "/v1/keys", "/templates", "/v2/templates", "/v1/templates", "/snapshots"}) {
    auto answer = call("GET", list, "", other);
    for (const auto& secret : {id, template_id, key_id, snapshot_id}) {
      EXPECT_EQ(answer.text.find(secret), std::string::npos) << list << " shows another tenant's " << secret;
    }
  }
  EXPECT_EQ(call("GET", "/v1/events?sandbox=" + id, "", other).body.at("events").as_array().size(), 0u);
  EXPECT_EQ(call("GET", "/sandboxes/" + id).status, 200) << "it still runs";
  EXPECT_EQ(call("GET", "/templates/hidden").status, 200);
  EXPECT_EQ(call("GET", "/v1/keys").status, 200);
}

TEST_F(ApiTest, AdminRoutesRefuseEveryMembersKey) {
  std::string key = api_.other_key();
  for (const Route& route : all_routes()) {
    if (route.auth != Auth::kAdmin) continue;
    std::string path = route.pattern;
    RE2::GlobalReplace(&path, R"(\{[^}]*\})", "x");
    EXPECT_EQ(call(route.method, path, "", key).status, 403) << path;
    EXPECT_EQ(call(route.method, path, "", "none").status, 401) << path;
  }
}

TEST_F(ApiTest, TemplatesAreFoundListedAndRemoved) {
  auto alias = call("GET", "/templates/aliases/base");
  EXPECT_EQ(alias.status, 200);
  EXPECT_EQ(alias.body.at("public"), true);
  std::string id(alias.body.at("templateID").as_string());
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":")" + id + R"("})").status, 201);
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"base:default"})").status, 201);
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"base:other"})").status, 404);
  auto tagged =
      call("POST", "/v1/templates",
           fmt::format(R"({{"name":"base:v2","buildId":"{}","memoryMB":256,"cpuMillis":500,"poolSize":0}})",
                       kBuild2));
  ASSERT_EQ(tagged.status, 201) << tagged.text;
  EXPECT_EQ(call("POST", "/v2/sandboxes", R"({"templateID":"base:v2"})").status, 201);
  EXPECT_EQ(call("GET", "/templates/base").body.at("builds").as_array().size(), 2u);
  EXPECT_EQ(call("GET", "/templates/base/tags").body.as_array().size(), 2u);
  EXPECT_EQ(call("GET", "/templates").body.at(0).at("spawnCount"), 3);
  EXPECT_EQ(call("GET", "/v2/templates?limit=1").body.as_array().size(), 1u);
  auto missing =
      call("POST", "/v1/templates", R"({"name":"x","buildId":"00000000-0000-4000-8000-000000000000"})");
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(missing.word(), "build_missing");
  for (const char* bad : {R"({"name":"x","buildId":"../../etc"})",
                          R"({"name":"X","buildId":"00000000-0000-4000-8000-000000000000"})",
                          R"({"name":"x:00000000-0000-4000-8000-000000000000",)"
                          R"("buildId":"00000000-0000-4000-8000-000000000000"})"}) {
    EXPECT_EQ(call("POST", "/v1/templates", bad).status, 400) << bad;
  }
  EXPECT_EQ(call("DELETE", "/v1/templates/base").status, 204);
  EXPECT_EQ(call("DELETE", "/v1/templates/base").status, 404);
  EXPECT_EQ(call("GET", "/templates/aliases/base").status, 404);
}

TEST_F(ApiTest, EventsGoOnFromWhereTheReaderWas) {
  std::string id = api_.create();
  EXPECT_EQ(call("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":50})").status, 204);
  auto first = call("GET", "/v1/events?limit=1");
  ASSERT_EQ(first.body.at("events").as_array().size(), 1u);
  auto rest = call("GET", fmt::format("/v1/events?after={}", first.body.at("next").as_int64()));
  ASSERT_EQ(rest.body.at("events").as_array().size(), 1u);
  EXPECT_EQ(rest.body.at("events").at(0).at("type"), "sandbox.timeout");
  auto none = call("GET", fmt::format("/v1/events?after={}", rest.body.at("next").as_int64()));
  EXPECT_EQ(none.body.at("events").as_array().size(), 0u);
  EXPECT_EQ(none.body.at("next"), rest.body.at("next"));
}

TEST_F(ApiTest, StatusAndHost) {
  api_.create();
  auto status = call("GET", "/v1/status");
  EXPECT_EQ(status.body.at("sandboxes").at("running"), 1);
  EXPECT_EQ(status.body.at("runner").at("connected"), true);
  EXPECT_EQ(call("GET", "/v1/host").body.at("isolation"), json::parse(R"(["container"])"));
  api_.world.runner.down = true;
  api_.world.runner.disconnect();
  api_.world.until([&] { return !api_.world.service->status().runner_connected; });
  EXPECT_EQ(call("GET", "/v1/host").status, 503);
  EXPECT_EQ(call("GET", "/v1/status").body.at("runner").at("connected"), false);
  auto refused = call("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.word(), "runner_unavailable");
}

// I12: what a client sends as a secret is not in any other answer, nor in the database.
TEST_F(ApiTest, EnvironmentValuesAreNotKept) {
  api_.create(R"(,"envVars":{"TOKEN":"canary-7f3a"})");
  for (const char* path : {"/v2/sandboxes", "/v1/sandboxes", "/v1/events", "/v1/status"}) {
    EXPECT_EQ(call("GET", path).text.find("canary-7f3a"), std::string::npos) << path;
  }
  for (const char* name : {"control/state.db", "control/state.db-wal"}) {
    std::ifstream file(api_.world.path(name), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(bytes.find("canary-7f3a"), std::string::npos) << name;
    EXPECT_EQ(bytes.find(api_.admin_key), std::string::npos) << name << " holds an API key";
  }
}

}  // namespace
}  // namespace atl::api
