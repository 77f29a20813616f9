// SPDX-License-Identifier: Apache-2.0
#include "control/egress_link.h"

#include <boost/json.hpp>

#include "async/within.h"
#include "base/log.h"

namespace atl::control {
namespace {

namespace json = boost::json;

constexpr auto kHeartbeat = std::chrono::seconds(1);
constexpr auto kFirstRetry = std::chrono::milliseconds(20);
constexpr auto kLastRetry = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kAnswerLimit = std::chrono::seconds(5);
constexpr std::size_t kMaxAnswer = 1 << 20;  // a batch of events

json::array blocks(const std::vector<model::Cidr>& list) {
  json::array out;
  for (const model::Cidr& block : list) out.emplace_back(model::format_cidr(block));
  return out;
}

json::object facts_json(const EgressFacts& facts) {
  json::object network;
  network["internet"] = facts.network.internet;
  json::array allow = blocks(facts.network.allow);
  for (const std::string& name : facts.network.names) allow.emplace_back(name);
  network["allow"] = std::move(allow);
  network["deny"] = blocks(facts.network.deny);
  network["rules"] = json::value_from(facts.network.headers);
  network["httpsPorts"] = json::value_from(facts.network.https_ports);
  if (facts.network.proxy) {
    const model::EgressProxy& proxy = *facts.network.proxy;
    network["proxy"] = json::object{
        {"address", proxy.address}, {"username", proxy.username}, {"sealedPassword", proxy.sealed_password}};
  }
  json::object out;
  out["id"] = facts.sandbox;
  out["tenant"] = facts.tenant;
  out["template"] = facts.template_id;
  out["generation"] = facts.generation;
  out["slot"] = facts.slot;
  out["state"] = model::state_name(facts.state);
  out["network"] = std::move(network);
  if (!facts.labels.empty()) out["labels"] = json::value_from(facts.labels);
  if (facts.hand_over) out["handOver"] = true;
  return out;
}

std::uint64_t number_of(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value && value->is_int64() ? static_cast<std::uint64_t>(value->get_int64()) : 0;
}

EgressAnswer read_answer(const std::string& body) {
  boost::system::error_code error;
  json::value value = json::parse(body.empty() ? "{}" : body, error);
  if (error) value = json::object();
  auto text = [&](const char* pointer) {
    boost::system::error_code absent;
    const json::value* found = value.find_pointer(pointer, absent);
    return found && found->is_string() ? std::string(found->get_string()) : std::string();
  };
  EgressAnswer out;
  out.authority_pem = text("/authority/pem");
  out.authority_hash = text("/authority/hash");
  out.authority_root = text("/authority/root");
  out.token = Secret(text("/token"));
  if (value.is_object()) {
    out.under_way = number_of(value.get_object(), "underWay");
    out.work.requests = number_of(value.get_object(), "requests");
    out.work.approvals = number_of(value.get_object(), "approvals");
    out.work.quiet = Millis(number_of(value.get_object(), "quietMs"));
  }
  const json::value* variables = value.find_pointer("/environment", error);
  for (const auto& [name, one] :
       variables && variables->is_object() ? variables->get_object() : json::object()) {
    if (one.is_string())
      out.environment[std::string(name.data(), name.size())] = std::string(one.get_string());
  }
  return out;
}

// What a gateway tells of what happened.
struct News {
  std::vector<model::Event> events;
  std::uint64_t last = 0;
  std::uint64_t lost = 0;
};

std::string text_of(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

model::Event read_event(const json::object& told) {
  model::Event event;
  event.at = WallTime{static_cast<std::int64_t>(number_of(told, "at"))};
  event.tenant = text_of(told, "tenant");
  event.sandbox = text_of(told, "sandbox");
  event.type = text_of(told, "type");
  event.message = text_of(told, "reason");
  json::object data{{"target", text_of(told, "target")}, {"rule", text_of(told, "rule")}};
  for (const char* key : {"label", "approval", "decidedBy"}) {
    if (std::string text = text_of(told, key); !text.empty()) data[key] = std::move(text);
  }
  event.data = json::serialize(data);
  return event;
}

News read_news(const std::string& text) {
  News news;
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return news;
  const json::object& object = value.get_object();
  news.last = number_of(object, "last");
  news.lost = number_of(object, "lost");
  const json::value* list = object.if_contains("events");
  for (const json::value& one : list && list->is_array() ? list->get_array() : json::array()) {
    if (one.is_object()) news.events.push_back(read_event(one.get_object()));
  }
  return news;
}

}  // namespace

// What is about to run may send as soon as it does, so it is told as running before.
EgressFacts egress_facts(const model::SandboxRow& row, const std::string& root_template) {
  bool wakes = row.state == model::State::kResuming && row.rests_in_memory;
  bool runs = row.state == model::State::kCreating || wakes;
  model::State state = runs ? model::State::kRunning : row.state;
  const std::string& of = root_template.empty() ? row.template_id : root_template;
  return {row.id, row.tenant, of, row.generation, row.slot, state, row.network, row.labels, false};
}

EgressLink::EgressLink(async::Executor executor, http::Connector connect,
                       std::function<std::vector<EgressFacts>()> all, Keep keep, std::function<void()> told)
    : connect_(std::move(connect)),
      all_(std::move(all)),
      keep_(std::move(keep)),
      told_(std::move(told)),
      work_(executor),
      progress_(executor),
      scope_(executor) {}

void EgressLink::start() {
  if (connect_) scope_.spawn("gateway link", run());
}

Task<> EgressLink::stop() {
  stopping_ = true;
  scope_.cancel();
  progress_.notify_all();
  co_await scope_.join();
}

void EgressLink::enqueue(Message message) {
  queue_.push_back(std::move(message));
  work_.notify_all();
}

void EgressLink::changed(EgressFacts facts) {
  // Without a connection nothing is kept: the next one begins with everything.
  if (listening_) enqueue(put(facts, nullptr));
}

void EgressLink::gone(std::string sandbox, std::uint64_t generation) {
  if (!listening_) return;
  enqueue({"DELETE", fmt::format("/v1/sandboxes/{}?generation={}", sandbox, generation), "", nullptr});
}

Task<Result<EgressAnswer>> EgressLink::make_known(EgressFacts facts) {
  if (!connect_) co_return EgressAnswer{};
  std::string sandbox = facts.sandbox;
  co_return co_await hear(put(facts, std::make_shared<Ask>()), std::move(sandbox));
}

Task<Result<EgressWork>> EgressLink::work_of(std::string sandbox) {
  if (!connect_) co_return EgressWork{.quiet = Millis::max()};
  Message question;
  question.method = "GET";
  question.target = "/v1/sandboxes/" + sandbox + "/work";
  question.ask = std::make_shared<Ask>();
  CO_TRY(EgressAnswer told, co_await hear(std::move(question), std::move(sandbox)));
  co_return told.work;
}

// Says it, and waits for the answer.
Task<Result<EgressAnswer>> EgressLink::hear(Message message, std::string sandbox) {
  std::shared_ptr<Ask> ask = message.ask;
  enqueue(std::move(message));
  auto until = Steady::now() + kPatience;
  while (!ask->answer && !stopping_ && Steady::now() < until) co_await progress_.wait_until(until);
  if (ask->answer) co_return std::move(*ask->answer);
  ask->over = true;
  if (!listening_)
    std::erase_if(queue_, [](const Message& message) { return message.ask && message.ask->over; });
  co_return make_error(Code::kUnavailable, "the gateway does not know sandbox {} yet", sandbox)
      .with_word("gateway_unavailable")
      .with_hint("look at the state of atoll-gateway: atoll status");
}

EgressLink::Message EgressLink::put(const EgressFacts& facts, std::shared_ptr<Ask> ask) {
  return {"PUT", "/v1/sandboxes/" + facts.sandbox, json::serialize(facts_json(facts)), std::move(ask)};
}

Task<Result<std::string>> EgressLink::say(Message message) {
  http::RequestHead head;
  head.method = message.method;
  head.target = message.target;
  head.authority = "gateway";
  head.has_body = !message.body.empty();
  if (head.has_body) {
    head.content_length = message.body.size();
    head.headers.add("content-type", "application/json");
  }
  auto answer = co_await async::within(kAnswerLimit, "tell the gateway",
                                       http::fetch(client_, std::move(head), message.body, kMaxAnswer));
  if (!answer) co_return std::move(answer).error();
  // What it refuses stays unknown to it, so nothing of that sandbox gets out. Others are none the worse.
  bool taken = answer->head.status / 100 == 2;
  if (!taken) {
    log::error("the gateway refused what it was told", {{"request", message.method + " " + message.target},
                                                        {"status", answer->head.status},
                                                        {"answer", answer->body}});
  }
  if (message.ask && taken) message.ask->answer.emplace(read_answer(answer->body));
  if (message.ask && !taken) {
    message.ask->answer.emplace(
        make_error(Code::kInvalid, "the gateway refuses the network rules: {}", answer->body));
  }
  co_return std::move(answer->body);
}

Task<Result<net::StreamPtr>> EgressLink::dial_once(std::shared_ptr<bool> dialled) {
  if (std::exchange(*dialled, true)) co_return make_error(Code::kUnavailable, "the connection has ended");
  co_return co_await connect_();
}

// Until the connection breaks. What waits when everything is told anew is known with it.
Task<Result<void>> EgressLink::serve() {
  // One connection and no other: a new one may lead to a new gateway, which knows nothing.
  auto dialled = std::make_shared<bool>(false);
  client_ = http::make_client([this, dialled] { return dial_once(dialled); });
  json::array sandboxes;
  for (const EgressFacts& facts : all_()) sandboxes.push_back(facts_json(facts));
  // What waits was said before: all of it is in here, but what somebody still stands behind and waits for.
  std::erase_if(queue_, [](const Message& message) { return !message.ask || message.ask->over; });
  listening_ = true;
  json::object everything;
  everything["sandboxes"] = std::move(sandboxes);
  Message sync{"POST", "/v1/sync", json::serialize(everything), nullptr};
  CO_TRY_VOID(co_await say(std::move(sync)));
  have_ = 0;
  connected_ = true;
  log::info("gateway connected");
  if (told_) told_();
  while (!stopping_) CO_TRY_VOID(co_await say_next());
  co_return success();
}

Task<Result<void>> EgressLink::say_next() {
  if (queue_.empty()) co_await work_.wait_until(Steady::now() + kHeartbeat);
  if (queue_.empty()) co_return co_await ask_news();
  Message next = queue_.front();
  if (!next.ask || !next.ask->over) CO_TRY_VOID(co_await say(std::move(next)));
  queue_.pop_front();
  progress_.notify_all();
  co_return success();
}

// The heartbeat, and what has happened for the journal.
Task<Result<void>> EgressLink::ask_news() {
  Message alive{"POST", fmt::format("/v1/alive?have={}", have_), "", nullptr};
  CO_TRY(std::string text, co_await say(std::move(alive)));
  News news = read_news(text);
  if (news.lost > 0) log::warn("events of the gateway were lost", {{"count", news.lost}});
  if (news.events.empty()) co_return success();
  auto kept = co_await keep_(std::move(news.events));
  if (kept)
    have_ = news.last;
  else
    log::warn("events of the gateway were not stored", {{"why", kept.error().message()}});
  co_return success();
}

Task<> EgressLink::run() {
  Steady::duration retry = kFirstRetry;
  while (!stopping_) {
    auto served = co_await serve();
    listening_ = false;
    if (stopping_) co_return;
    if (std::exchange(connected_, false)) {
      retry = kFirstRetry;
      log::warn("lost the gateway", {{"what", served.error().message()}});
    }
    co_await async::sleep_for(retry);
    retry = std::min<Steady::duration>(retry * 2, kLastRetry);
  }
}

}  // namespace atl::control
