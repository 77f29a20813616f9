// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/approvals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "gateway/approvals/approvals_api.h"
#include "http/client.h"
#include "net/tcp.h"

namespace atl::gateway {
namespace {

namespace asio = async::asio;
using async::Task;
using State = ApprovalState;
using testing::ElementsAre;
using testing::HasSubstr;
using RowPtr = Approvals::RowPtr;

constexpr char kId[] = "iaaaaaaaaaaaaaaaaaaaa";
constexpr auto kLong = Steady::duration(std::chrono::hours(1));
constexpr Millis kLasts{60'000};

class ApprovalsTest : public ::testing::Test {
 protected:
  ApprovalsTest() : folder_(std::filesystem::temp_directory_path() / ("atoll-approvals-" + random_hex(8))) {
    std::filesystem::create_directories(folder_);
    open();
    put(1, model::State::kRunning);
    registry_.heard();
  }
  ~ApprovalsTest() override {
    api_.reset();
    approvals_.reset();
    std::filesystem::remove_all(folder_);
  }
  // Also again: as after a kill, with nothing in memory.
  void open() {
    api_.reset();
    approvals_.reset();
    auto opened =
        Approvals::open(loop_.get_executor(), (folder_ / "approvals.db").string(), registry_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    approvals_ = std::move(*opened);
    approvals_->on_change([this](const Approval& one) {
      told_.push_back(std::string(approval_state_name(one.state)) +
                      (one.decided_by.empty() ? "" : " by " + one.decided_by));
    });
    api_ = std::make_unique<ApprovalsApi>(*approvals_);
  }
  void put(std::uint64_t generation, model::State state) {
    registry_.put({kId, "t", "base", generation, 5, state, {}, nullptr, nullptr});
  }

  template <class T>
  static Task<> keep(Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
  // Others may go on waiting.
  template <class Done>
  void until(Done done) {
    loop_.restart();
    while (!done()) loop_.run_one();
    loop_.poll();
  }
  template <class T>
  T get(Task<T> task) {
    std::optional<T> out;
    asio::co_spawn(loop_, keep(std::move(task), out), asio::detached);
    until([&] { return out.has_value(); });
    return *std::move(out);
  }
  void run(Task<> task) {
    bool done = false;
    asio::co_spawn(loop_, std::move(task), [&](const std::exception_ptr&) { done = true; });
    until([&] { return done; });
  }

  static Question question(const std::string& fingerprint = "f", const std::string& sandbox = kId) {
    return {"t",         sandbox, 1, "", "tenant/pay", fingerprint, "POST", "https://pay.example/",
            "a summary", kLasts};
  }
  RowPtr ask(Question what) {
    auto row = get(approvals_->ask(std::move(what)));
    EXPECT_TRUE(row.ok()) << row.error().message();
    return row.ok() ? *row : nullptr;
  }
  Result<Approval> decide(const RowPtr& row, Approvals::Decision decision, const std::string& tenant = "t") {
    return get(approvals_->decide(tenant, row->approval().id, decision, "key-1", "because"));
  }
  Result<Approval> approve(const RowPtr& row) { return decide(row, Approvals::Decision::kApprove); }
  Result<Approval> deny(const RowPtr& row) { return decide(row, Approvals::Decision::kDeny); }
  bool use(const RowPtr& row) { return get(approvals_->use(row)).value_or(false); }
  // The state after `until`, which has come already.
  State look(const RowPtr& row) { return get(approvals_->wait(row, Steady::now())); }

  // One that waits, and may be gone before it has its answer.
  struct Held {
    std::optional<State> state;
    asio::cancellation_signal gone;
    bool ended = false;
  };
  void hold(const RowPtr& row, Held& held) {
    auto wait = [](Approvals* in, RowPtr of, Held* out) -> Task<> {
      out->state = co_await in->wait(of, Steady::now() + kLong);
    };
    asio::co_spawn(loop_, wait(approvals_.get(), row, &held),
                   asio::bind_cancellation_slot(held.gone.slot(),
                                                [&held](const std::exception_ptr&) { held.ended = true; }));
    loop_.restart();
    loop_.poll();
  }
  void leave(Held& held) {
    held.gone.emit(asio::cancellation_type::terminal);
    until([&] { return held.ended; });
    EXPECT_FALSE(held.state);
  }

  Task<> serve(net::StreamPtr stream) {
    http::Handler handler = [this](http::Exchange& exchange) { return api_->handle(exchange); };
    http::ServerLimits limits;
    co_await http::serve_http1(std::move(stream), "", false, limits, handler);
  }
  Task<Result<net::StreamPtr>> connect() {
    auto [mine, theirs] = net::stream_pair(loop_.get_executor());
    asio::co_spawn(loop_, serve(std::move(mine)), asio::detached);
    co_return std::move(theirs);
  }
  Task<> fetch(http::RequestHead head, std::string body) {
    auto client = http::make_client([this] { return connect(); });
    auto fetched = co_await http::fetch(client, std::move(head), std::move(body), 1 << 20);
    status_ = fetched.ok() ? fetched->head.status : 0;
    text_ = fetched.ok() ? fetched->body : fetched.error().message();
    client->close_idle();
  }
  int call(const char* method, const std::string& target, const std::string& body = "") {
    http::RequestHead head;
    head.method = method;
    head.target = "/v1/approvals/" + target;
    head.authority = "gateway";
    head.has_body = !body.empty();
    if (head.has_body) head.content_length = body.size();
    EXPECT_TRUE(ApprovalsApi::takes(head));
    run(fetch(std::move(head), body));
    return status_;
  }

  asio::io_context loop_;
  std::filesystem::path folder_;
  ManualClock clock_;
  Registry registry_;
  std::unique_ptr<Approvals> approvals_;
  std::unique_ptr<ApprovalsApi> api_;
  std::vector<std::string> told_;
  int status_ = 0;
  std::string text_;
};

TEST_F(ApprovalsTest, AGrantIsUsedOnce) {
  RowPtr row = ask(question());
  Held held;
  hold(row, held);
  EXPECT_FALSE(held.ended);
  EXPECT_FALSE(use(row));
  ASSERT_TRUE(approve(row).ok());
  EXPECT_EQ(held.state, State::kApproved);
  std::optional<Result<bool>> first, second;
  asio::co_spawn(loop_, keep(approvals_->use(row), first), asio::detached);
  asio::co_spawn(loop_, keep(approvals_->use(row), second), asio::detached);
  until([&] { return first && second; });
  EXPECT_EQ(int{first->value()} + int{second->value()}, 1);
  EXPECT_FALSE(use(row));
  EXPECT_EQ(row->approval().state, State::kUsed);
  EXPECT_THAT(told_, ElementsAre("pending", "approved by key-1", "used by key-1"));
  EXPECT_NE(ask(question()), row);  // the next one is asked about anew
}

TEST_F(ApprovalsTest, TheSameRequestsShareOneAndOneOfThemGoes) {
  RowPtr row = ask(question());
  EXPECT_EQ(ask(question()), row);
  EXPECT_NE(ask(question("other")), row);
  Held first, second;
  hold(row, first);
  hold(row, second);
  ASSERT_TRUE(approve(row).ok());
  EXPECT_EQ(first.state, State::kApproved);
  EXPECT_EQ(second.state, State::kApproved);
  EXPECT_EQ(int{use(row)} + int{use(row)}, 1);
}

TEST_F(ApprovalsTest, TwoThatAskAtTheSameMomentJoin) {
  std::optional<Result<RowPtr>> first, second;
  asio::co_spawn(loop_, keep(approvals_->ask(question()), first), asio::detached);
  asio::co_spawn(loop_, keep(approvals_->ask(question()), second), asio::detached);
  until([&] { return first && second; });
  ASSERT_TRUE((*first).ok() && (*second).ok());
  EXPECT_EQ(**first, **second);
  EXPECT_EQ(approvals_->list("t", "", std::nullopt, 10).size(), 1u);
}

TEST_F(ApprovalsTest, TwoThatAskWhenOneHasJustExpiredJoin) {
  RowPtr old = ask(question());
  clock_.advance(kLasts);
  std::optional<Result<RowPtr>> first, second;
  asio::co_spawn(loop_, keep(approvals_->ask(question()), first), asio::detached);
  asio::co_spawn(loop_, keep(approvals_->ask(question()), second), asio::detached);
  until([&] { return first && second; });
  ASSERT_TRUE((*first).ok() && (*second).ok());
  EXPECT_EQ(**first, **second);
  EXPECT_NE(**first, old);
  EXPECT_EQ(ask(question()), **first);  // it stands
  EXPECT_EQ(approvals_->list("t", "", State::kPending, 10).size(), 1u);
}

TEST_F(ApprovalsTest, WhatHasExpiredIsNotToldAsPending) {
  RowPtr row = ask(question());
  clock_.advance(kLasts);
  EXPECT_EQ(look(row), State::kExpired);
}

TEST_F(ApprovalsTest, DenialsThatNobodyCanRunIntoTakeNoRoom) {
  for (std::size_t i = 0; i < Approvals::kMostPerSandbox; ++i)
    ASSERT_TRUE(deny(ask(question(std::to_string(i)))).ok());
  EXPECT_FALSE(get(approvals_->ask(question("more"))).ok());
  put(2, model::State::kRunning);
  run(approvals_->sandbox_changed(kId));
  Question next = question("next");
  next.generation = 2;
  EXPECT_NE(ask(next), nullptr);
}

TEST_F(ApprovalsTest, ARetryFindsWhatWasApprovedMeanwhile) {
  RowPtr row = ask(question());
  EXPECT_EQ(look(row), State::kPending);  // its time to wait is over
  clock_.advance(Approvals::kGrace * 2);
  run(approvals_->sweep());
  ASSERT_TRUE(approve(row).ok());
  EXPECT_EQ(ask(question()), row);
  EXPECT_EQ(look(row), State::kApproved);
  EXPECT_TRUE(use(row));
}

TEST_F(ApprovalsTest, ADenialHoldsUntilItExpires) {
  RowPtr row = ask(question());
  ASSERT_TRUE(deny(row).ok());
  EXPECT_EQ(look(ask(question())), State::kDenied);
  EXPECT_EQ(row->approval().reason, "because");
  EXPECT_EQ(told_.size(), 2u);
  clock_.advance(kLasts);
  RowPtr next = ask(question());
  EXPECT_NE(next, row);
  EXPECT_EQ(look(next), State::kPending);
  EXPECT_EQ(row->approval().state, State::kDenied);
}

TEST_F(ApprovalsTest, ExpiryIsNoDenialAndComesToTheMoment) {
  RowPtr late = ask(question("late")), early = ask(question("early"));
  Held held;
  hold(late, held);
  clock_.advance(kLasts - Millis(1));
  EXPECT_TRUE(approve(early).ok());
  clock_.advance(Millis(1));
  auto decided = approve(late);
  ASSERT_FALSE(decided.ok());
  EXPECT_EQ(decided.error().code(), Code::kConflict);
  EXPECT_EQ(held.state, State::kExpired);
  EXPECT_TRUE(late->approval().decided_by.empty());
  EXPECT_TRUE(use(early));
  EXPECT_EQ(told_.back(), "used by key-1");
  for (const std::string& one : told_) EXPECT_EQ(one.find("denied"), std::string::npos);
}

TEST_F(ApprovalsTest, AGrantThatNobodyUsesExpires) {
  RowPtr row = ask(question());
  ASSERT_TRUE(approve(row).ok());
  clock_.advance(kLasts);
  EXPECT_FALSE(use(row));
  run(approvals_->sweep());
  EXPECT_EQ(row->approval().state, State::kExpired);
  EXPECT_NE(ask(question()), row);
}

TEST_F(ApprovalsTest, WhoGoesAwayTakesTheQuestionBackUnlessSomebodyElseWaits) {
  RowPtr row = ask(question());
  Held first, second;
  hold(row, first);
  hold(row, second);
  leave(first);
  clock_.advance(Approvals::kGrace);
  run(approvals_->sweep());
  EXPECT_EQ(row->approval().state, State::kPending);
  leave(second);
  run(approvals_->sweep());
  EXPECT_EQ(row->approval().state, State::kPending);  // it may come again
  clock_.advance(Approvals::kGrace);
  run(approvals_->sweep());
  EXPECT_EQ(row->approval().state, State::kCancelled);
  EXPECT_FALSE(approve(row).ok());
}

TEST_F(ApprovalsTest, WhatASandboxAskedIsTakenBackWhenItPauses) {
  RowPtr pending = ask(question("a")), granted = ask(question("b")), denied = ask(question("c"));
  ASSERT_TRUE(approve(granted).ok());
  ASSERT_TRUE(deny(denied).ok());
  Held held;
  hold(pending, held);
  put(1, model::State::kPausing);
  EXPECT_FALSE(use(granted));
  run(approvals_->sandbox_changed(kId));
  EXPECT_EQ(held.state, State::kCancelled);
  EXPECT_EQ(granted->approval().state, State::kCancelled);
  EXPECT_EQ(granted->approval().decided_by, "key-1");
  EXPECT_EQ(denied->approval().state, State::kDenied);
  EXPECT_FALSE(approve(pending).ok());
}

TEST_F(ApprovalsTest, AGrantIsOfOneGeneration) {
  RowPtr row = ask(question());
  ASSERT_TRUE(approve(row).ok());
  put(2, model::State::kRunning);
  EXPECT_FALSE(use(row));
}

TEST_F(ApprovalsTest, RowsOutliveTheGateway) {
  RowPtr pending = ask(question("a")), granted = ask(question("b")), used = ask(question("c"));
  ASSERT_TRUE(approve(granted).ok());
  ASSERT_TRUE(approve(used).ok());
  ASSERT_TRUE(use(used));
  registry_ = Registry();  // nothing is known before control speaks
  open();
  run(approvals_->sweep());
  put(1, model::State::kRunning);
  RowPtr again = ask(question("b"));
  EXPECT_EQ(again->approval().id, granted->approval().id);
  EXPECT_EQ(look(again), State::kApproved);
  EXPECT_TRUE(use(again));
  EXPECT_EQ(ask(question("a"))->approval().id, pending->approval().id);
  EXPECT_NE(ask(question("c"))->approval().id, used->approval().id);
}

TEST_F(ApprovalsTest, WhatEndedWhileTheGatewayWasAwayIsTakenBack) {
  RowPtr row = ask(question());
  std::string id = row->approval().id;
  registry_ = Registry();
  open();
  registry_.heard();  // control has said what there is, and it is not among it
  run(approvals_->sweep());
  EXPECT_EQ(approvals_->get("t", id)->state, State::kCancelled);
}

TEST_F(ApprovalsTest, AreBoundedPerSandboxAndPerTenant) {
  for (std::size_t i = 0; i < Approvals::kMostPerSandbox; ++i) ask(question(std::to_string(i)));
  auto more = get(approvals_->ask(question("more")));
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().word(), "approvals_full");
  EXPECT_THAT(more.error().message(), HasSubstr("sandbox"));
  EXPECT_NE(ask(question("0")), nullptr);  // joins
  for (std::size_t i = Approvals::kMostPerSandbox; i < Approvals::kMostPerTenant; ++i)
    ask(question(std::to_string(i), "s" + std::to_string(i)));
  more = get(approvals_->ask(question("more", "another")));
  ASSERT_FALSE(more.ok());
  EXPECT_THAT(more.error().message(), HasSubstr("tenant"));
}

TEST_F(ApprovalsTest, TheOldestThatAreOverAreForgotten) {
  for (std::size_t i = 0; i < Approvals::kMostOverPerSandbox + 3; ++i) {
    RowPtr row = ask(question(std::to_string(i)));
    ASSERT_TRUE(approve(row).ok());
    ASSERT_TRUE(use(row));
    clock_.advance(Millis(1));
  }
  RowPtr open_one = ask(question("open"));
  run(approvals_->sweep());
  auto left = approvals_->list("t", "", std::nullopt, 1000);
  EXPECT_EQ(left.size(), Approvals::kMostOverPerSandbox + 1);
  EXPECT_EQ(left.front().id, open_one->approval().id);
  EXPECT_EQ(left.back().question.fingerprint, "3");
  open();
  EXPECT_EQ(approvals_->list("t", "", std::nullopt, 1000).size(), left.size());
}

TEST_F(ApprovalsTest, TheApiShowsAndDecidesWhatIsTheTenants) {
  RowPtr row = ask(question());
  const std::string mine = "t/" + row->approval().id, theirs = "u/" + row->approval().id;
  EXPECT_EQ(call("GET", "t?state=pending"), 200);
  EXPECT_THAT(text_, HasSubstr(row->approval().id));
  EXPECT_THAT(text_, Not(HasSubstr("a summary")));
  EXPECT_EQ(call("GET", mine), 200);
  EXPECT_THAT(text_, HasSubstr("a summary"));
  for (const char* none : {"u", "t?state=used", "t?sandbox=other"}) {
    EXPECT_EQ(call("GET", none), 200);
    EXPECT_EQ(text_, R"({"approvals":[]})");
  }
  EXPECT_EQ(call("GET", "t?state=maybe"), 400);
  EXPECT_EQ(call("GET", "t?limit=0"), 400);
  EXPECT_EQ(call("GET", theirs), 404);
  EXPECT_EQ(call("POST", theirs + "?by=k", R"({"decision":"approve"})"), 404);
  EXPECT_EQ(call("POST", mine, R"({"decision":"approve"})"), 400);  // nobody says so
  EXPECT_EQ(call("POST", mine + "?by=k", R"({"decision":"perhaps"})"), 400);
  EXPECT_EQ(row->approval().state, State::kPending);
  EXPECT_EQ(call("POST", mine + "?by=k", R"({"decision":"deny","reason":"too much"})"), 200);
  EXPECT_THAT(text_, HasSubstr(R"("state":"denied")"));
  EXPECT_THAT(text_, HasSubstr(R"("decidedBy":"k","reason":"too much")"));
  EXPECT_EQ(call("POST", mine + "?by=k", R"({"decision":"approve"})"), 409);
  EXPECT_THAT(text_, HasSubstr("approval_not_pending"));
  EXPECT_EQ(call("DELETE", mine), 404);
}

}  // namespace
}  // namespace atl::gateway
