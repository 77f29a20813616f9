// SPDX-License-Identifier: Apache-2.0
//
// Minter: the tokens of credentials that are exchanged at an endpoint, or signed here. Each is fetched once,
// however many requests want it, and a refresh token that the endpoint has replaced is on disk before
// anything else happens: one that is used twice, or lost, ends the account's access
// (docs/decisions/0118-minting.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "async/scope.h"
#include "gateway/vault/exchange.h"
#include "gateway/vault/vault.h"

namespace atl::gateway::vault {

// Sends a request to a token endpoint, by the gateway's own way upstream. It must come to an end by itself.
using Fetch = std::function<Task<Result<TokenAnswer>>(TokenRequest request)>;
// A token to put into a request (apply.h). Shared and immutable.
using TokenPtr = std::shared_ptr<const Locked>;

// Use from one loop. Call stop() before it goes.
class Minter {
 public:
  // A token is renewed this long before its end, and one of a short life when a quarter of it is left.
  static constexpr auto kMargin = std::chrono::seconds(60);
  static constexpr auto kPause = std::chrono::seconds(2);     // after an exchange that failed
  static constexpr auto kTrusted = std::chrono::seconds(60);  // a new token outlives refusals for this long
  static constexpr auto kAuthorizeWithin = std::chrono::minutes(10);
  static constexpr std::size_t kMaxAuthorizations = 64;       // of one tenant
  static constexpr std::size_t kMaxAllAuthorizations = 4096;  // of all, far above what people do at once

  // `vault` must outlive this.
  Minter(async::Executor executor, Vault& vault, Fetch fetch, const Clock& clock);

  // A token that is good for its margin at least where the endpoint gives such ones. While it cannot be
  // renewed, the one at hand is good to its end. kDenied, word "oauth_invalid_grant" or
  // "authorization_needed", when a person has to authorize it (again); kUnavailable, word
  // "credential_changed", when the secret has another version by now, or is gone. Cancelling the caller does
  // not stop an exchange.
  Task<Result<TokenPtr>> token(CredentialPtr credential);
  // An upstream has refused `token`: the next caller gets a new one, but not within kTrusted of the exchange
  // that gave it. A program inside can have every request refused, and each would cost an exchange.
  void reject(const Credential& credential, const TokenPtr& token);
  // The secret was removed.
  void forget(const std::string& secret_id);

  // Authorization code: where a person's browser goes; then what came back from there.
  struct Authorization {
    std::string url;
    std::string state;
  };
  Result<Authorization> begin_authorization(CredentialPtr credential);
  // kNotFound for a state that is not awaited (any more) for this credential: each works once.
  Task<Result<void>> finish_authorization(CredentialPtr credential, std::string state, std::string code);

  // Device: what a person does; then, every interval_s seconds, whether it was done.
  Task<Result<DeviceCode>> begin_device(CredentialPtr credential);
  enum class DeviceState : bool { kWaiting, kDone };
  Task<Result<DeviceState>> poll_device(CredentialPtr credential);

  // Waits for exchanges that are under way; none is cut off.
  Task<> stop();

 private:
  struct Slot {
    explicit Slot(async::Executor executor) : changed(std::move(executor)) {}
    std::uint64_t version = 0;
    TokenPtr access;
    Locked refresh;
    WallTime expires;
    Millis margin{};                          // how long before it ends it is renewed
    std::optional<Steady::time_point> since;  // of the exchange that gave `access`; none: it was on disk
    bool loaded = false;
    bool saved = true;  // false: what is here is not on disk, so nobody may use it
    bool busy = false;
    std::uint64_t rounds = 0;  // exchanges that have ended
    std::optional<Error> failed;
    WallTime retry_at;
    async::Event changed;
  };
  using SlotPtr = std::shared_ptr<Slot>;
  struct Pending {
    CredentialPtr credential;
    Secret verifier;  // or the device code
    WallTime expires;
  };

  Result<SlotPtr> slot_of(const Credential& credential);
  bool good(const Slot& slot, Millis margin) const;
  bool fresh(const Slot& slot) const { return good(slot, slot.margin); }
  Result<TokenPtr> signed_token(Slot& slot, const Credential& credential) const;
  Task<> renew(SlotPtr slot, CredentialPtr credential);
  Task<Result<void>> exchange(SlotPtr slot, CredentialPtr credential);
  Task<Result<void>> load(SlotPtr slot, CredentialPtr credential);
  Result<TokenRequest> request_for(const Slot& slot, const Credential& credential) const;
  void keep(Slot& slot, Tokens tokens) const;
  Task<Result<void>> save(SlotPtr slot, CredentialPtr credential);
  Task<Result<void>> adopt(CredentialPtr credential, TokenRequest request);
  void note_failure(Slot& slot, Error error) const;
  void drop_late_authorizations();
  std::size_t authorizations(std::string_view tenant) const;

  async::Executor executor_;
  Vault& vault_;
  Fetch fetch_;
  const Clock& clock_;
  async::Scope scope_;
  bool stopping_ = false;
  std::unordered_map<std::string, SlotPtr> slots_;    // by secret; bounded by the secrets
  std::unordered_map<std::string, Pending> pending_;  // by state
  std::unordered_map<std::string, Pending> devices_;  // by secret
};

}  // namespace atl::gateway::vault
