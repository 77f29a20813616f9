// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/bodies.h"

#include "base/bytes.h"
#include "base/digest.h"
#include "gateway/upstream/request_head.h"
#include "net/relay.h"

namespace atl::gateway {

using async::Task;

namespace {

// Waits until it is cancelled.
Task<> park() {
  async::asio::steady_timer never(co_await async::asio::this_coro::executor, Steady::time_point::max());
  co_await never.async_wait(async::use_result);
}

Error taken_away() {
  return make_error(Code::kDenied, "a credential of the request was changed or taken away under way")
      .with_word("credential_changed")
      .with_hint("send the request again");
}

// The next part of a body, or its end when `part` is empty, on its way; false when nobody takes it.
Task<Result<bool>> pass_on(http::ClientExchange& upstream, vault::BodyResolver* resolver,
                           std::string_view part) {
  if (resolver == nullptr) co_return part.empty() || (co_await upstream.write_body(part)).ok();
  std::string out;
  if (part.empty()) {
    CO_TRY_VOID(resolver->finish(out));
  } else {
    CO_TRY_VOID(resolver->feed(part, out));
  }
  bool taken = out.empty() || (co_await upstream.write_body(out)).ok();
  vault::wipe(out);
  co_return taken;
}

// The body; false when it broke off or may not go on.
Task<bool> relay_body(http::Exchange& exchange, http::ClientExchange& upstream, const SendRules& rules,
                      const FairShare::User& memory, std::optional<Error>& unsendable) {
  net::RelayBuffer buffer(memory);
  std::uint64_t sent = 0;
  while (true) {
    auto got = co_await exchange.read_body(buffer.space());
    if (!got) {
      upstream.close();
      co_return false;
    }
    sent += *got;
    if (sent > rules.most) unsendable = make_error(Code::kTooLarge, "the body is larger than a rule allows");
    if (rules.resolver && rules.may_resolve && !rules.may_resolve()) unsendable = taken_away();
    Result<bool> taken = false;
    if (!unsendable) taken = co_await pass_on(upstream, rules.resolver.get(), buffer.view(*got));
    if (!taken) unsendable = taken.error();
    if (unsendable) {
      upstream.close();
      co_return false;
    }
    if (*got == 0 || !*taken) co_return true;  // where nobody takes it there may still be an answer
    buffer.passed_on(*got);
  }
}

Error no_room(std::size_t have) {
  return make_error(Code::kExhausted,
                    "the body must be read before it can go on, and no room is left for it after {} bytes",
                    have)
      .with_word("body_memory")
      .with_hint(
          "try again when other uploads have ended, or send x-amz-content-sha256 so that it need not be "
          "read");
}

Error too_slow(std::size_t have, Steady::duration within) {
  return make_error(Code::kDeadline,
                    "the body must be read before it can go on, and only {} bytes of it came in {} seconds",
                    have, std::chrono::duration_cast<std::chrono::seconds>(within).count())
      .with_word("body_too_slow")
      .with_hint("send it faster, or in smaller parts");
}

}  // namespace

Result<void> HeldBody::replace(std::string other) {
  bool room = other.size() <= bytes.size() || share.grow(other.size() - bytes.size());
  if (room) bytes.swap(other);
  vault::wipe(other);
  return room ? success() : Result<void>(no_room(bytes.size()));
}

Task<Result<HeldBody>> hold_body(http::Exchange& exchange, FairShare& held, std::string sandbox,
                                 std::size_t most, FairShare::User memory, Steady::duration within) {
  auto until = Steady::now() + within;
  auto expected = exchange.request().content_length;
  if (expected && *expected > most)
    co_return make_error(Code::kTooLarge, "the body is larger than the {} bytes that can be read first",
                         most);
  HeldBody out{"", held.of(std::move(sandbox)).open()};
  if (expected) out.bytes.reserve(static_cast<std::size_t>(*expected));  // pages come with the bytes
  net::RelayBuffer buffer(memory);
  while (true) {
    CO_TRY(std::size_t got, co_await exchange.read_body(buffer.space()));
    if (got == 0) co_return out;
    if (Steady::now() >= until) co_return too_slow(out.bytes.size() + got, within);
    if (got > most - out.bytes.size())
      co_return make_error(Code::kTooLarge, "the body is larger than the {} bytes that can be read first",
                           most);
    if (!out.share.grow(got)) co_return no_room(out.bytes.size());
    out.bytes.append(buffer.view(got));
    buffer.passed_on(got);
  }
}

Task<> send_body(http::Exchange& exchange, http::ClientExchange& upstream,
                 const std::optional<HeldBody>& read, const SendRules& rules, FairShare::User memory,
                 std::optional<Error>& unsendable) {
  bool whole = true;
  if (read) {
    if (!read->bytes.empty()) whole = (co_await upstream.write_body(read->bytes)).ok();
  } else {
    whole = co_await relay_body(exchange, upstream, rules, memory, unsendable);
  }
  if (whole) {
    upstream.set_trailers(prepare_trailers(exchange.request_trailers(), rules.injected));
    (void)co_await upstream.finish_body();
  }
  co_await park();  // the answer decides
}

Task<> watch_client(http::Exchange& exchange, http::ClientExchange& upstream, const bool& answered) {
  co_await exchange.wait_client_gone();
  auto cancelled = (co_await async::asio::this_coro::cancellation_state).cancelled();
  if (cancelled != async::asio::cancellation_type::none) co_return;
  if (!answered) upstream.close();
  co_await park();
}

std::string hex_sha256(std::string_view bytes) { return hex_encode(Sha256Beginning("").with(bytes)); }

}  // namespace atl::gateway
