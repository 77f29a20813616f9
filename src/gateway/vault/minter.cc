// SPDX-License-Identifier: Apache-2.0
#include "gateway/vault/minter.h"

#include <algorithm>

#include "async/detach.h"
#include "base/random.h"

namespace atl::gateway::vault {
namespace {

constexpr WallTime kNever{std::numeric_limits<std::int64_t>::max()};
constexpr std::size_t kStateBytes = 16;
constexpr std::size_t kVerifierBytes = 32;  // 64 characters; RFC 7636 wants 43 to 128

const OAuthKind* oauth(const Credential& credential) {
  return std::get_if<OAuthKind>(&credential.config.kind);
}

Error needs_authorization(const Credential& credential) {
  return make_error(Code::kDenied, "the credential '{}' was never authorized", credential.row.name)
      .with_word("authorization_needed")
      .with_hint(fmt::format("run: atoll secret authorize {}", credential.row.name));
}

}  // namespace

Minter::Minter(async::Executor executor, Vault& vault, Fetch fetch, const Clock& clock)
    : executor_(executor), vault_(vault), fetch_(std::move(fetch)), clock_(clock), scope_(executor) {}

// Who still holds an old version gets none: the slot is the newest version's, and an exchange with the old
// secret would end that one's tokens.
Result<Minter::SlotPtr> Minter::slot_of(const Credential& credential) {
  auto known = vault_.info(credential.row.tenant, credential.row.id);
  if (!known.ok() || known->version != credential.row.version) {
    return make_error(Code::kUnavailable, "the credential '{}' was changed or taken away meanwhile",
                      credential.row.name)
        .with_word("credential_changed")
        .with_hint("send the request again");
  }
  auto& slot = slots_[credential.row.id];
  if (slot == nullptr || slot->version < credential.row.version) {
    slot = std::make_shared<Slot>(executor_);
    slot->version = credential.row.version;
  }
  return slot;
}

bool Minter::good(const Slot& slot, Millis margin) const {
  return slot.access != nullptr && slot.saved && slot.expires > clock_.now() + margin;
}

Task<Result<TokenPtr>> Minter::token(CredentialPtr credential) {
  CO_TRY(SlotPtr slot, slot_of(*credential));
  if (fresh(*slot)) co_return slot->access;
  if (std::holds_alternative<JwtKind>(credential->config.kind)) co_return signed_token(*slot, *credential);
  bool wait = slot->busy || !slot->failed || clock_.now() >= slot->retry_at;
  if (wait && !slot->busy) {
    if (stopping_) co_return make_error(Code::kCancelled, "the gateway is stopping");
    slot->busy = true;
    auto before = slot->rounds;
    scope_.spawn("mint a token", renew(slot, credential));
    while (slot->rounds == before) co_await slot->changed.wait();
  } else if (wait) {
    auto before = slot->rounds;
    while (slot->rounds == before) co_await slot->changed.wait();
  }
  // Whatever the exchange came to: a short-lived token is better than none.
  if (good(*slot, Millis(0))) co_return slot->access;
  if (slot->failed) co_return Error(*slot->failed);
  co_return make_error(Code::kUnavailable, "the token endpoint gave a token that has ended already")
      .with_word("token_endpoint_failed");
}

// One for many requests: answers are searched for it, and patterns cost more than a signature.
Result<TokenPtr> Minter::signed_token(Slot& slot, const Credential& credential) const {
  TRY(Tokens tokens, sign_own(credential, clock_.now()));
  auto life = tokens.expires - clock_.now();
  keep(slot, std::move(tokens));
  slot.margin = life / 2;
  return slot.access;
}

Task<> Minter::renew(SlotPtr slot, CredentialPtr credential) {
  auto done = co_await exchange(slot, credential);
  slot->failed.reset();
  if (!done.ok()) note_failure(*slot, std::move(done).error());
  slot->busy = false;
  ++slot->rounds;
  slot->changed.notify_all();
}

void Minter::note_failure(Slot& slot, Error error) const {
  bool for_good = error.code() == Code::kDenied;
  slot.retry_at = for_good ? kNever : clock_.now() + kPause;
  slot.failed = std::move(error);
}

Task<Result<void>> Minter::exchange(SlotPtr slot, CredentialPtr credential) {
  if (!slot->loaded) {
    CO_TRY_VOID(co_await load(slot, credential));
    if (fresh(*slot)) co_return success();
  }
  if (!slot->saved) {
    // The endpoint has replaced the refresh token, and the disk did not take it: that first.
    CO_TRY_VOID(co_await save(slot, credential));
    if (fresh(*slot)) co_return success();
  }
  CO_TRY(TokenRequest request, request_for(*slot, *credential));
  CO_TRY(TokenAnswer answer, co_await fetch_(std::move(request)));
  CO_TRY(Tokens tokens, read_tokens(answer, clock_.now()));
  keep(*slot, std::move(tokens));
  if (!slot->saved) CO_TRY_VOID(co_await save(slot, credential));
  co_return success();
}

Task<Result<void>> Minter::load(SlotPtr slot, CredentialPtr credential) {
  CO_TRY(Locked packed, co_await vault_.load_tokens(credential));
  slot->loaded = true;
  if (packed.empty()) co_return success();
  CO_TRY(Tokens tokens, unpack(packed));
  keep(*slot, std::move(tokens));
  slot->saved = true;
  slot->since.reset();
  slot->margin = kMargin;  // of its life only the rest is known
  co_return success();
}

Result<TokenRequest> Minter::request_for(const Slot& slot, const Credential& credential) const {
  const auto* kind = oauth(credential);
  if (kind == nullptr) return ask_github(credential, clock_.now());
  if (kind->grant == OAuthKind::Grant::kClientCredentials) return ask_by_client(credential);
  if (!slot.refresh.empty()) return ask_by_refresh(credential, slot.refresh.reveal());
  Secret given(secret_part(credential.secret.reveal(), "refresh_token"));
  if (given.empty()) return needs_authorization(credential);
  return ask_by_refresh(credential, given.reveal());
}

void Minter::keep(Slot& slot, Tokens tokens) const {
  slot.access = std::make_shared<const Locked>(Locked::copy_of(tokens.access.reveal()));
  slot.since = clock_.steady_now();
  slot.expires = tokens.expires;
  slot.margin = std::min<Millis>(kMargin, (tokens.expires - clock_.now()) / 4);
  if (tokens.refresh.empty()) {
    // The one at hand stays good (RFC 6749 §6); an access token alone can be had again and needs no disk.
    slot.saved = slot.refresh.empty() || slot.saved;
    return;
  }
  slot.refresh = Locked::copy_of(tokens.refresh.reveal());
  slot.saved = false;
}

Task<Result<void>> Minter::save(SlotPtr slot, CredentialPtr credential) {
  Tokens tokens{Secret(std::string(slot->access->reveal())), Secret(std::string(slot->refresh.reveal())),
                slot->expires};
  CO_TRY_VOID(co_await vault_.save_tokens(credential, pack(tokens)));
  slot->saved = true;
  co_return success();
}

void Minter::reject(const Credential& credential, const TokenPtr& token) {
  auto found = slots_.find(credential.row.id);
  if (found == slots_.end() || found->second->access != token) return;  // a newer one is there already
  auto& slot = *found->second;
  if (slot.since && clock_.steady_now() - *slot.since < kTrusted) return;
  slot.access = nullptr;
}

void Minter::forget(const std::string& secret_id) {
  slots_.erase(secret_id);
  devices_.erase(secret_id);
  std::erase_if(pending_, [&](const auto& one) { return one.second.credential->row.id == secret_id; });
}

void Minter::drop_late_authorizations() {
  auto late = [now = clock_.now()](const auto& one) { return one.second.expires <= now; };
  std::erase_if(pending_, late);
  std::erase_if(devices_, late);
}

std::size_t Minter::authorizations(std::string_view tenant) const {
  return static_cast<std::size_t>(std::count_if(pending_.begin(), pending_.end(), [tenant](const auto& one) {
    return one.second.credential->row.tenant == tenant;
  }));
}

Result<Minter::Authorization> Minter::begin_authorization(CredentialPtr credential) {
  const auto* kind = oauth(*credential);
  if (kind == nullptr || kind->grant != OAuthKind::Grant::kAuthorizationCode) {
    return make_error(Code::kInvalid, "the credential '{}' is not one that a browser authorizes",
                      credential->row.name)
        .with_word("credential_kind");
  }
  drop_late_authorizations();
  if (authorizations(credential->row.tenant) >= kMaxAuthorizations)
    return make_error(Code::kExhausted, "{} authorizations of the tenant are under way", kMaxAuthorizations);
  if (pending_.size() >= kMaxAllAuthorizations)
    return make_error(Code::kExhausted, "{} authorizations of all tenants are under way",
                      kMaxAllAuthorizations);
  Secret verifier(random_hex(kVerifierBytes));
  auto state = random_hex(kStateBytes);
  auto url = authorize_url(*kind, state, verifier.reveal());
  pending_.emplace(state,
                   Pending{std::move(credential), std::move(verifier), clock_.now() + kAuthorizeWithin});
  return Authorization{std::move(url), std::move(state)};
}

Task<Result<void>> Minter::finish_authorization(CredentialPtr credential, std::string state,
                                                std::string code) {
  drop_late_authorizations();
  auto at = pending_.find(state);
  // Somebody else's stays: whoever learns a state must not end it, or put an account in its place.
  if (at == pending_.end() || at->second.credential->row.id != credential->row.id) {
    co_return make_error(Code::kNotFound, "no authorization with this state is under way; begin it again")
        .with_word("authorization_unknown");
  }
  Pending pending = std::move(at->second);
  pending_.erase(at);
  auto request = ask_by_code(*pending.credential, code, pending.verifier.reveal());
  wipe(code);
  co_return co_await adopt(pending.credential, std::move(request));
}

// Exchanges `request` for the first tokens of `credential`.
Task<Result<void>> Minter::adopt(CredentialPtr credential, TokenRequest request) {
  CO_TRY(SlotPtr slot, slot_of(*credential));
  CO_TRY(TokenAnswer answer, co_await fetch_(std::move(request)));
  CO_TRY(Tokens tokens, read_tokens(answer, clock_.now()));
  // Also an access token without a refresh token is kept: it cannot be had again without a person.
  keep(*slot, std::move(tokens));
  slot->loaded = true;
  slot->saved = false;
  slot->failed.reset();
  co_return co_await save(slot, credential);
}

Task<Result<DeviceCode>> Minter::begin_device(CredentialPtr credential) {
  const auto* kind = oauth(*credential);
  if (kind == nullptr || kind->grant != OAuthKind::Grant::kDevice) {
    co_return make_error(Code::kInvalid, "the credential '{}' is not one that a device code authorizes",
                         credential->row.name)
        .with_word("credential_kind");
  }
  CO_TRY(TokenAnswer answer, co_await fetch_(ask_for_device_code(*credential)));
  CO_TRY(DeviceCode code, read_device_code(answer, clock_.now()));
  drop_late_authorizations();
  auto id = credential->row.id;
  devices_.insert_or_assign(std::move(id), Pending{std::move(credential), code.device_code, code.expires});
  co_return code;
}

Task<Result<Minter::DeviceState>> Minter::poll_device(CredentialPtr credential) {
  drop_late_authorizations();
  auto found = devices_.find(credential->row.id);
  if (found == devices_.end()) {
    co_return make_error(Code::kNotFound, "no device code of '{}' is waiting; begin it again",
                         credential->row.name)
        .with_word("authorization_unknown");
  }
  auto request = ask_by_device_code(*credential, found->second.verifier.reveal());
  auto done = co_await adopt(credential, std::move(request));
  bool waiting = !done.ok() && (done.error().word() == "oauth_authorization_pending" ||
                                done.error().word() == "oauth_slow_down");
  if (waiting) co_return DeviceState::kWaiting;
  devices_.erase(credential->row.id);
  if (!done.ok()) co_return std::move(done).error();
  co_return DeviceState::kDone;
}

Task<> Minter::stop() {
  stopping_ = true;
  return scope_.join();
}

}  // namespace atl::gateway::vault
