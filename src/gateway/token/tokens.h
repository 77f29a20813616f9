// SPDX-License-Identifier: Apache-2.0
//
// Tokens: what sandboxes hold instead of secrets. Each is good for one sandbox, in one generation, from one
// slot, and for an hour at most; the platform renews it while the sandbox runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "gateway/token/caveat.h"
#include "gateway/token/text.h"
#include "gateway/vault/locked.h"
#include "store/database.h"

namespace atl::gateway::token {

using async::Task;

// Whom a token is for, or who shows one.
struct Holder {
  std::string tenant;
  std::string sandbox;
  std::uint64_t generation = 0;
  std::uint32_t slot = 0;
  bool operator==(const Holder&) const = default;
};

// A token as it is handed to its sandbox.
struct Issued {
  Secret text;  // shown once, and kept nowhere
  WallTime expires;
};

// What a token that was accepted is good for.
struct Grant {
  Holder holder;
  std::vector<Caveat> caveats;
  // kDenied, word "token_narrowed", when a caveat does not allow it.
  Result<void> allows(const Use& use) const;
};

// Use from one loop.
class Tokens {
 public:
  static constexpr auto kLife = std::chrono::hours(1);

  // The file may lie in a folder that is empty after a boot: no sandbox is older than that. It has hashes of
  // tokens, and keys of narrowed ones sealed with `key`. Blocking.
  static Result<std::unique_ptr<Tokens>> open(const std::string& path, vault::Locked key, const Clock& clock);

  // A new token, good for kLife, in place of the one that its sandbox had: that is worth nothing at once.
  Task<Result<Issued>> issue(Holder holder);
  // The tokens of all for whom `alive` is true are good for kLife from now; the others, and those that have
  // ended, are forgotten. To be called a few times an hour.
  Task<Result<void>> renew(std::function<bool(const Holder&)> alive);
  // Ends the token of a sandbox, of `generation` or before. It is worth nothing at once, also before the
  // answer.
  Task<Result<void>> revoke(std::string sandbox, std::uint64_t generation);

  // `presenter` is who the slot says it is. kUnauthenticated, with a word: "token_malformed", "token_unknown"
  // (never issued, revoked or forged), "token_expired", "token_elsewhere" (it is another's, or of an earlier
  // generation).
  Result<Grant> check(std::string_view text, const Holder& presenter) const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Holder holder;
    std::string hash;   // of the bits
    std::string chain;  // the key of its caveats, sealed
    WallTime expires;
  };
  Tokens(std::unique_ptr<store::Database> db, vault::Locked key, const Clock& clock)
      : db_(std::move(db)), key_(std::move(key)), clock_(clock) {}
  Result<void> load();
  Result<void> verify(const Parts& parts, const Entry& entry) const;
  void drop(const std::string& id);
  Task<Result<void>> forget(std::vector<std::string> ids);  // on the disk

  std::unique_ptr<store::Database> db_;
  vault::Locked key_;
  const Clock& clock_;
  std::unordered_map<std::string, Entry> entries_;    // by id
  std::unordered_map<std::string, std::string> ids_;  // by sandbox
};

}  // namespace atl::gateway::token
