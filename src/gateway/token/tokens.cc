// SPDX-License-Identifier: Apache-2.0
#include "gateway/token/tokens.h"

#include <sodium.h>

#include <array>

#include "base/bytes.h"
#include "base/random.h"
#include "gateway/vault/sealing.h"

namespace atl::gateway::token {
namespace {

using store::Blob;
using store::Connection;
using store::Statement;

constexpr const char* kInitial = R"sql(
CREATE TABLE sandbox_tokens (
  id         BLOB PRIMARY KEY,
  tenant     TEXT NOT NULL,
  sandbox    TEXT NOT NULL,
  generation INTEGER NOT NULL,
  slot       INTEGER NOT NULL,
  hash       BLOB NOT NULL,
  chain      BLOB NOT NULL,
  expires    INTEGER NOT NULL
) STRICT;
)sql";

std::string hash_of(std::string_view bits) {
  std::string out(crypto_generichash_BYTES, '\0');
  crypto_generichash(reinterpret_cast<unsigned char*>(out.data()), out.size(),
                     reinterpret_cast<const unsigned char*>(bits.data()), bits.size(), nullptr, 0);
  return out;
}

std::string chain_place(std::string_view id) { return vault::place({"token chain", id}); }

Error refused(std::string_view why, const char* word) {
  return make_error(Code::kUnauthenticated, "the sandbox token {}", why).with_word(word);
}

}  // namespace

Result<void> Grant::allows(const Use& use) const {
  for (const auto& caveat : caveats) TRY_VOID(check_caveat(caveat, use));
  return success();
}

Result<std::unique_ptr<Tokens>> Tokens::open(const std::string& path, vault::Locked key, const Clock& clock) {
  TRY(auto db, store::Database::open(path, {{"tokens_0001_initial", kInitial}}));
  std::unique_ptr<Tokens> tokens(new Tokens(std::move(db), std::move(key), clock));
  TRY_VOID(tokens->load());
  return tokens;
}

Result<void> Tokens::load() {
  using Loaded = std::unordered_map<std::string, Entry>;
  TRY(entries_, db_->run_blocking([](Connection& db) -> Result<Loaded> {
    Loaded out;
    TRY(Statement rows,
        db.prepare("SELECT id, tenant, sandbox, generation, slot, hash, chain, expires FROM sandbox_tokens"));
    while (true) {
      TRY(bool more, rows.step());
      if (!more) return out;
      Holder holder{rows.text(1), rows.text(2), static_cast<std::uint64_t>(rows.integer(3)),
                    static_cast<std::uint32_t>(rows.integer(4))};
      out.emplace(rows.text(0), Entry{std::move(holder), rows.text(5), rows.text(6), {rows.integer(7)}});
    }
  }));
  for (const auto& [id, entry] : entries_) ids_[entry.holder.sandbox] = id;
  return success();
}

void Tokens::drop(const std::string& id) {
  auto found = entries_.find(id);
  if (found == entries_.end()) return;
  auto latest = ids_.find(found->second.holder.sandbox);
  if (latest != ids_.end() && latest->second == id) ids_.erase(latest);
  entries_.erase(found);
}

Task<Result<Issued>> Tokens::issue(Holder holder) {
  auto key = random_key();
  Secret bits(std::string(reinterpret_cast<const char*>(key.data()), key.size()));
  sodium_memzero(key.data(), key.size());
  auto text = write_full(bits.reveal());
  CO_TRY(Parts parts, read_token(text.reveal()));
  auto sealed = vault::seal(key_, chain_place(parts.id), parts.signature.reveal());
  Entry entry{holder, hash_of(bits.reveal()), std::move(sealed), clock_.now() + kLife};
  if (auto former = ids_.find(holder.sandbox); former != ids_.end()) drop(std::string(former->second));
  auto insert = [id = parts.id, entry](Connection& db) -> Result<void> {
    const auto& who = entry.holder;
    TRY_VOID(db.run("DELETE FROM sandbox_tokens WHERE sandbox = ?", who.sandbox));
    TRY_VOID(db.run("INSERT INTO sandbox_tokens VALUES (?,?,?,?,?,?,?,?)", Blob{id}, who.tenant, who.sandbox,
                    who.generation, who.slot, Blob{entry.hash}, Blob{entry.chain}, entry.expires.ms));
    return success();
  };
  CO_TRY_VOID(co_await db_->run(insert));
  Issued out{std::move(text), entry.expires};
  // Two at once: the file has the one that was written last, and answers come in that order.
  if (auto other = ids_.find(holder.sandbox); other != ids_.end()) drop(std::string(other->second));
  ids_[holder.sandbox] = parts.id;
  entries_.emplace(parts.id, std::move(entry));
  co_return out;
}

Task<Result<void>> Tokens::renew(std::function<bool(const Holder&)> alive) {
  auto now = clock_.now();
  auto until = now + kLife;
  std::vector<std::string> kept, gone;
  for (const auto& [id, entry] : entries_) {
    // One that has ended stays so: a platform that was away for longer has let it go.
    (entry.expires > now && alive(entry.holder) ? kept : gone).push_back(id);
  }
  for (const auto& id : kept) entries_.at(id).expires = until;
  for (const auto& id : gone) drop(id);
  auto update = [kept, until](Connection& db) -> Result<void> {
    for (const auto& id : kept)
      TRY_VOID(db.run("UPDATE sandbox_tokens SET expires = ? WHERE id = ?", until.ms, Blob{id}));
    return success();
  };
  CO_TRY_VOID(co_await db_->run(update));
  co_return co_await forget(std::move(gone));
}

Task<Result<void>> Tokens::revoke(std::string sandbox, std::uint64_t generation) {
  std::vector<std::string> gone;
  auto latest = ids_.find(sandbox);
  bool ends = latest != ids_.end() && entries_.at(latest->second).holder.generation <= generation;
  if (ends) gone.push_back(latest->second);
  // Here and not in the task, which begins later.
  for (const auto& id : gone) drop(id);
  return forget(std::move(gone));
}

Task<Result<void>> Tokens::forget(std::vector<std::string> ids) {
  auto erase = [ids](Connection& db) -> Result<void> {
    for (const auto& id : ids) TRY_VOID(db.run("DELETE FROM sandbox_tokens WHERE id = ?", Blob{id}));
    return success();
  };
  if (ids.empty()) co_return success();
  co_return co_await db_->run(erase);
}

Result<void> Tokens::verify(const Parts& parts, const Entry& entry) const {
  if (!parts.bits.empty()) {
    if (constant_time_equal(hash_of(parts.bits.reveal()), entry.hash)) return success();
    return refused("is not one that was issued", "token_unknown");
  }
  TRY(vault::Locked chain, vault::unseal(key_, chain_place(parts.id), entry.chain));
  Secret signature{std::string(chain.reveal())};
  for (const auto& caveat : parts.caveats) signature = Secret(sign_caveat(signature.reveal(), caveat));
  if (signature.matches(parts.signature.reveal())) return success();
  return refused("is not one that was issued", "token_unknown");
}

Result<Grant> Tokens::check(std::string_view text, const Holder& presenter) const {
  TRY(Parts parts, read_token(text));
  auto found = entries_.find(parts.id);
  if (found == entries_.end()) return refused("is not one that was issued, or was revoked", "token_unknown");
  const auto& entry = found->second;
  TRY_VOID(verify(parts, entry));
  if (entry.expires <= clock_.now()) return refused("has expired", "token_expired");
  if (entry.holder != presenter) {
    return refused("belongs to another sandbox, or to an earlier generation of this one", "token_elsewhere");
  }
  Grant out{entry.holder, {}};
  for (const auto& one : parts.caveats) {
    // Signed, but perhaps by a program that knows more than this one.
    auto caveat = parse_caveat(one);
    if (!caveat.ok()) return refused("has a caveat that is not understood", "token_malformed");
    out.caveats.push_back(std::move(*caveat));
  }
  return out;
}

}  // namespace atl::gateway::token
