// SPDX-License-Identifier: Apache-2.0
//
// Task<T>: a lazy coroutine on an event loop. Start it with co_await or Scope::spawn; there is no other way,
// so no work is ever detached.
//
// Rules (tools/tidy checks them; docs/decisions/0003-coroutines.md says why):
//   - parameters by value, or references to objects that outlive the scope the task runs in
//   - no capturing lambda coroutines, no `{}` and no `?:` inside a co_await expression
//   - no lock across co_await
#pragma once

#include <boost/asio.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace atl::async {

namespace asio = boost::asio;

template <class T = void>
using Task = asio::awaitable<T>;
using Executor = asio::any_io_executor;

// Completion token of every asynchronous operation of Asio in Atoll: an error is a value, never a throw.
inline constexpr auto use_result = asio::as_tuple(asio::use_awaitable);

// Maps an Asio error to ours. `what` names the operation and the object.
Error from_asio(const boost::system::error_code& error, std::string_view what);

// Suspends for at least `duration`. Returns early, without an error, when the surrounding scope is cancelled.
Task<> sleep_for(Steady::duration duration);

// `co_await shield();` makes this task deaf to cancellation from here on. A cancelled task ends by an
// exception at its next co_await, so one that owns a Scope, or must finish something, shields itself before
// it joins.
inline auto shield() { return asio::this_coro::reset_cancellation_state(asio::disable_cancellation()); }

// Lets other tasks of this loop run first.
Task<> yield();

}  // namespace atl::async
