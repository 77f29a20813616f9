// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/session.h"

namespace atl::cli {

void Session::on_signals(std::initializer_list<int> numbers, std::function<void(int)> call) {
  bool waiting = static_cast<bool>(on_signal_);
  on_signal_ = std::move(call);
  for (int number : numbers) {
    boost::system::error_code ignored;  // adding a signal fails only for numbers that do not exist
    signals_.add(number, ignored);
  }
  if (!waiting) next_signal();
}

void Session::next_signal() {
  signals_.async_wait([this](boost::system::error_code failure, int number) {
    if (failure) return;
    on_signal_(number);
    next_signal();
  });
}

namespace {
// Asio throws into a cancelled coroutine at its next co_await unless told otherwise; here errors are values.
Task<> without_throw(Task<> task) {
  co_await async::asio::this_coro::throw_if_cancelled(false);
  co_await std::move(task);
}
}  // namespace

void Session::spawn(std::string name, Task<> task) {
  scope_.spawn(std::move(name), without_throw(std::move(task)));
}

Task<> Session::drive(std::function<Task<Result<int>>(Session&)> body) {
  result_ = co_await body(*this);
  signals_.cancel();
  scope_.cancel();
  co_await scope_.join();
  loop_.stop();  // idle connections are still waiting for their time; nobody needs them any more
}

Result<int> Session::run(std::function<Task<Result<int>>(Session&)> body) {
  main_.spawn("command", drive(std::move(body)));
  loop_.run();
  // The stop came from inside the task, whose own end may still be waiting to be taken note of.
  while (main_.size() > 0) {
    loop_.restart();
    loop_.poll();
  }
  if (result_) return std::move(*result_);
  return make_error(Code::kInternal, "the command ended without a result");
}

}  // namespace atl::cli
