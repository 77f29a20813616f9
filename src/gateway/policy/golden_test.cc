// SPDX-License-Identifier: Apache-2.0
//
// Every file of golden/: sets of rules, and what they decide. A file is read as a user would write it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "gateway/policy/policy.h"
#include "http/json.h"

namespace atl::gateway::policy {
namespace {

namespace json = boost::json;

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::shared_ptr<const Policy> policy_of(const json::object& file) {
  std::vector<RuleSet> sets;
  for (Source source : {Source::kOperator, Source::kTenant, Source::kTemplate, Source::kSandbox}) {
    const json::value* rules = file.if_contains(source_name(source));
    if (!rules) continue;
    auto set = read_rule_set(rules->as_object(), source);
    EXPECT_TRUE(set.ok()) << set.error().message();
    if (set.ok()) sets.push_back(*std::move(set));
  }
  return Policy::compile(std::move(sets)).value();
}

ConnectionFacts connection_of(const json::object& row, const std::string& authority, Stream stream,
                              const std::string& label) {
  ConnectionFacts facts{
      .who = {.sandbox = "isandbox", .tenant = "acme", .template_id = "base", .label = label},
      .authority = parse_authority(authority, 0).value(),
      .address = std::nullopt,
      .stream = stream};
  if (auto address = text_of(row, "address"); !address.empty()) facts.address = parse_ip(address).value();
  return facts;
}

// The parts that a row tells; what it does not tell may be anything.
void expect_refusal(const json::object& row, const Refusal& refusal, const std::string& name) {
  EXPECT_EQ(refusal.rule, text_of(row, "rule")) << name;
  EXPECT_FALSE(refusal.reason.empty() || refusal.hint.empty()) << name;
  if (row.contains("reason")) EXPECT_EQ(refusal.reason, text_of(row, "reason")) << name;
  EXPECT_NE(refusal.hint.find(text_of(row, "hint")), std::string::npos) << name << ": " << refusal.hint;
}

void check_connection(const Policy& policy, const json::object& row, const std::string& name) {
  auto word = text_of(row, "stream"), label = text_of(row, "label");
  Stream stream = word == "tls" ? Stream::kTls : word == "http" ? Stream::kHttp : Stream::kOther;
  auto decision = policy.connection(connection_of(row, text_of(row, "connect"), stream, label));
  using Way = ConnectionDecision::Way;
  auto way = decision.way == Way::kPass ? "pass" : decision.way == Way::kInspect ? "inspect" : "deny";
  EXPECT_EQ(way, text_of(row, "is")) << name << ": " << decision.refusal.reason;
  if (decision.way == Way::kDeny) {
    expect_refusal(row, decision.refusal, name);
  } else if (row.contains("rule")) {
    EXPECT_EQ(decision.rule, text_of(row, "rule")) << name;
  }
}

std::int64_t seconds_of(const std::string& clock) {
  if (clock.empty()) return 0;
  return std::int64_t{*parse_number<int>(clock.substr(0, 2))} * 3600 +
         *parse_number<int>(clock.substr(3)) * 60;
}

std::string joined(const std::vector<HeaderSet>& fields) {
  std::string out;
  for (const HeaderSet& field : fields) out += (out.empty() ? "" : " ") + field.name + "=" + field.value;
  return out;
}

void check_request(const Policy& policy, const json::object& row, const std::string& name) {
  std::string line = text_of(row, "request"), label = text_of(row, "label"), body = text_of(row, "body");
  auto space = line.find(' ');
  auto start = line.find("://") + 3, slash = line.find('/', start);
  bool secure = line.substr(space + 1).starts_with("https");
  std::string host = line.substr(start, slash - start), method = line.substr(0, space),
              path = line.substr(slash);
  if (host.find(':') == std::string::npos) host += secure ? ":443" : ":80";
  http::Headers headers;
  if (const json::value* given = row.if_contains("headers")) {
    for (const auto& [key, value] : given->as_object())
      headers.add(std::string(key), std::string(value.as_string()));
  }
  RequestFacts facts{.at = connection_of(row, host, secure ? Stream::kTls : Stream::kHttp, label)};
  if (!facts.at.address && !facts.at.authority.host.is_address())
    facts.at.address = IpAddress::v4(0x01020304);
  facts.method = method;
  facts.path = path;
  facts.headers = &headers;
  facts.unix_seconds = seconds_of(text_of(row, "at"));
  if (row.contains("bytes")) facts.body_bytes = static_cast<std::uint64_t>(row.at("bytes").as_int64());
  if (row.contains("body")) facts.body = body, facts.body_bytes = body.size();

  auto decision = policy.request(facts);
  using Verdict = RequestDecision::Verdict;
  auto verdict = decision.verdict == Verdict::kAllow ? "allow"
                 : decision.verdict == Verdict::kAsk ? "ask"
                                                     : "deny";
  EXPECT_EQ(verdict, text_of(row, "is")) << name << ": " << decision.refusal.reason;
  if (decision.verdict == Verdict::kDeny) {
    expect_refusal(row, decision.refusal, name);
    return;
  }
  EXPECT_EQ(decision.rules.empty() ? "" : decision.rules.front(), text_of(row, "rule")) << name;
  if (row.contains("credentials"))
    EXPECT_EQ(decision.credentials.empty() ? "" : decision.credentials.front(), text_of(row, "credentials"))
        << name;
  if (row.contains("headers-set"))
    EXPECT_EQ(joined(decision.set_headers), text_of(row, "headers-set")) << name;
}

void check_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  auto file = http::parse_json(text);
  ASSERT_TRUE(file.ok()) << path << ": " << file.error().message();
  auto policy = policy_of(file->as_object());
  std::size_t number = 0;
  for (const json::value& entry : file->as_object().at("cases").as_array()) {
    const json::object& row = entry.as_object();
    auto name = fmt::format("{} case {}: {}", path.filename().string(), ++number, json::serialize(row));
    if (row.contains("connect")) {
      check_connection(*policy, row, name);
    } else if (row.contains("request")) {
      check_request(*policy, row, name);
    } else {
      bool yes = policy->may_resolve(text_of(row, "resolve"), text_of(row, "label"));
      EXPECT_EQ(yes ? "yes" : "no", text_of(row, "is")) << name;
    }
  }
  EXPECT_GT(number, 5u) << path;
}

TEST(Golden, EveryFileDecidesAsWritten) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATOLL_GOLDEN)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    check_file(entry.path());
  }
  EXPECT_GE(files, 8u);
}

}  // namespace
}  // namespace atl::gateway::policy
