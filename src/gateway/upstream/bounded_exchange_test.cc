// SPDX-License-Identifier: Apache-2.0
//
// What may happen while a request that was not processed is being started again.
#include "gateway/upstream/bounded_exchange.h"

#include <gtest/gtest.h>

#include "async/event.h"
#include "http/h2/client.h"

namespace atl::gateway {
namespace {

namespace asio = async::asio;

// What one inner exchange was told.
struct Told {
  std::string body;
  bool finished = false;
  bool gone = false;
};

// Answers 200, or fails at everything.
class FakeExchange final : public http::ClientExchange {
 public:
  explicit FakeExchange(Told& told, std::optional<Error> failure = {})
      : told_(told), failure_(std::move(failure)) {}
  ~FakeExchange() override { told_.gone = true; }

  Task<Result<void>> write_body(std::string_view data) override {
    if (failure_) co_return *failure_;
    told_.body += data;
    co_return success();
  }
  Task<Result<void>> finish_body() override {
    if (failure_) co_return *failure_;
    told_.finished = true;
    co_return success();
  }
  Task<Result<http::ResponseHead>> read_head() override {
    if (failure_) co_return *failure_;
    co_return http::ResponseHead{.status = 200};
  }
  Task<Result<std::size_t>> read_body(std::span<char>) override { co_return std::size_t{0}; }
  Task<Result<void>> wait_body() override { co_return success(); }
  net::StreamPtr take_stream() override { return nullptr; }
  std::string peer() const override { return {}; }
  void close() override {}
  void set_idle_limit(Steady::duration) override {}

 private:
  Told& told_;
  std::optional<Error> failure_;
};

// A request that the first peer did not process; the second try begins when the test lets it.
class BoundedExchangeTest : public ::testing::Test {
 protected:
  // Reads the head until the second try is about to begin.
  void read_head_up_to_the_second_try() {
    read_head();
    ASSERT_TRUE(dialling_);
  }
  void finish_the_second_try() {
    open_ = true;
    changed_.notify_all();
    poll();
    ASSERT_TRUE(head_);
  }
  void read_head() { play(read()); }
  void write(std::string_view data) { play(drop(exchange_.write_body(data))); }
  void finish_body() { play(drop(exchange_.finish_body())); }

  asio::io_context loop_;
  async::Event changed_{loop_.get_executor()};
  bool dialling_ = false;
  bool open_ = false;
  Told first_, second_;
  std::optional<Result<http::ResponseHead>> head_;
  BoundedExchange exchange_{
      std::make_unique<FakeExchange>(
          first_, make_error(Code::kUnavailable, "GOAWAY").with_word(std::string(http::kNotProcessed))),
      Timeouts(),
      {[this] { return start_again(); }, false}};

 private:
  void play(Task<> task) {
    asio::co_spawn(loop_, std::move(task), asio::detached);
    poll();
  }
  void poll() {
    loop_.restart();
    loop_.poll();
  }
  static Task<> drop(Task<Result<void>> step) { (void)co_await std::move(step); }
  Task<> read() { head_.emplace(co_await exchange_.read_head()); }
  Task<Result<BoundedExchange::Inner>> start_again() {
    dialling_ = true;
    while (!open_) co_await changed_.wait();
    co_return std::make_unique<FakeExchange>(second_);
  }
};

TEST_F(BoundedExchangeTest, ABodyThatComesAfterTheSecondTryIsSentWhole) {
  read_head_up_to_the_second_try();
  finish_the_second_try();
  EXPECT_TRUE(head_->ok());
  write("data");
  finish_body();
  EXPECT_EQ(second_.body, "data");
  EXPECT_TRUE(second_.finished);
}

TEST_F(BoundedExchangeTest, AnEmptyBodyThatEndsMeanwhileEndsInTheSecondTry) {
  read_head_up_to_the_second_try();
  finish_body();
  finish_the_second_try();
  EXPECT_TRUE(head_->ok());
  EXPECT_TRUE(second_.finished);
}

// The first peer's exchange takes the byte down with it. What is left would be a whole request without it.
TEST_F(BoundedExchangeTest, ABodyThatBeginsMeanwhileIsNotSentWithoutItsBeginning) {
  read_head_up_to_the_second_try();
  write("data");
  finish_body();
  finish_the_second_try();
  ASSERT_FALSE(head_->ok());
  EXPECT_EQ(head_->error().word(), http::kNotProcessed);
  EXPECT_FALSE(second_.finished);
  EXPECT_TRUE(second_.gone);
}

TEST_F(BoundedExchangeTest, ClosedMeanwhileItDropsTheSecondTry) {
  read_head_up_to_the_second_try();
  exchange_.close();
  finish_the_second_try();
  ASSERT_FALSE(head_->ok());
  EXPECT_EQ(head_->error().code(), Code::kCancelled);
  EXPECT_TRUE(second_.gone);
}

TEST_F(BoundedExchangeTest, ClosedBeforeItFailsThereIsNoSecondTry) {
  exchange_.close();
  read_head();
  EXPECT_TRUE(head_);
  EXPECT_FALSE(dialling_);
}

}  // namespace
}  // namespace atl::gateway
