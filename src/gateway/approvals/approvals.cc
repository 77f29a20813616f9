// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/approvals.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "gateway/approvals/approval_rows.h"

namespace atl::gateway {
namespace {

using async::Task;
using State = ApprovalState;
using store::Connection;

constexpr std::size_t kIdLength = 20;

Error unknown(const std::string& id) {
  return make_error(Code::kNotFound, "there is no approval {}", id).with_word("approval_not_found");
}

Error full(std::string_view whose, std::size_t most) {
  return make_error(Code::kExhausted, "{} requests of this {} wait for a person, or were denied", most, whose)
      .with_word("approvals_full")
      .with_hint("wait until some of them are decided, or ask for a rule that allows them");
}

Error not_pending(const Approval& approval) {
  return make_error(Code::kConflict, "approval {} is {} already", approval.id,
                    approval_state_name(approval.state))
      .with_word("approval_not_pending")
      .with_hint("only what is pending can be decided");
}

}  // namespace

// Somebody who waits, until it has its answer or is gone.
struct Approvals::Waiter {
  Waiter(Approvals& in, Row& row) : in_(in), row_(row) {
    ++row_.waiting_;
    row_.left_at_.reset();
  }
  ~Waiter() {
    --row_.waiting_;
    if (!answered && row_.waiting_ == 0) row_.left_at_ = in_.clock_.now();
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  bool answered = false;

 private:
  Approvals& in_;
  Row& row_;
};

Result<std::unique_ptr<Approvals>> Approvals::open(async::Executor executor, const std::string& path,
                                                   const Registry& registry, const Clock& clock) {
  TRY(auto db, store::Database::open(path, approval_migrations()));
  std::unique_ptr<Approvals> out(new Approvals(std::move(executor), std::move(db), registry, clock));
  TRY_VOID(out->load());
  return out;
}

Result<void> Approvals::load() {
  TRY(std::vector<Approval> all, db_->run_blocking([](Connection& db) { return load_approvals(db); }));
  for (Approval& approval : all) {
    auto row = std::make_shared<Row>(executor_, std::move(approval));
    row->kept_ = Row::Kept::kOnDisk;
    rows_[row->approval_.id] = row;
    if (stands(row->approval_)) standing_[row->approval_.question.fingerprint] = row;
  }
  return success();
}

// An answer for the next request that is the same.
bool Approvals::stands(const Approval& approval) const {
  bool open = approval.state == State::kPending || approval.state == State::kApproved;
  return open || (approval.state == State::kDenied && clock_.now() < approval.expires_at);
}

Result<void> Approvals::check_room(const Question& question) const {
  std::size_t of_sandbox = 0, of_tenant = 0;
  for (const auto& [fingerprint, row] : standing_) {
    const Question& other = row->approval_.question;
    of_tenant += other.tenant == question.tenant ? 1 : 0;
    of_sandbox += other.sandbox == question.sandbox ? 1 : 0;
  }
  if (of_sandbox >= kMostPerSandbox) return full("sandbox", of_sandbox);
  if (of_tenant >= kMostPerTenant) return full("tenant", of_tenant);
  if (standing_.size() >= kMost) return full("installation", standing_.size());
  return success();
}

Task<Result<Approvals::RowPtr>> Approvals::ask(Question question) {
  while (true) {
    auto found = standing_.find(question.fingerprint);
    if (found == standing_.end()) co_return co_await make(std::move(question));
    RowPtr row = found->second;
    while (row->kept_ == Row::Kept::kNotYet) co_await row->changed_.wait();
    if (row->kept_ == Row::Kept::kFailed)
      co_return make_error(Code::kUnavailable, "the question to a person could not be kept");
    // What is over is no answer any more; the sweep may not have come by yet.
    co_await end_what_is_over(row);
    if (stands(row->approval_)) co_return row;
    stand_down(*row);  // and look again: somebody may have asked anew meanwhile
  }
}

// Nobody who comes later joins it.
void Approvals::stand_down(const Row& row) {
  auto standing = standing_.find(row.approval_.question.fingerprint);
  if (standing == standing_.end() || standing->second.get() != &row) return;
  some_are_over_ = true;
  standing_.erase(standing);
}

Task<Result<Approvals::RowPtr>> Approvals::make(Question question) {
  CO_TRY_VOID(check_room(question));
  Approval approval;
  approval.id = "apr_" + random_base36(kIdLength);
  approval.created_at = clock_.now();
  approval.expires_at = approval.created_at + question.lasts;
  approval.question = std::move(question);
  auto row = std::make_shared<Row>(executor_, approval);
  standing_[approval.question.fingerprint] = row;
  rows_[approval.id] = row;
  // Also when whoever asks goes away meanwhile: others may have joined.
  struct Settle {
    Approvals& in;
    RowPtr row;
    ~Settle() {
      if (row->kept_ == Row::Kept::kNotYet) {
        row->kept_ = Row::Kept::kFailed;
        in.standing_.erase(row->approval_.question.fingerprint);
        in.rows_.erase(row->approval_.id);
      }
      row->changed_.notify_all();
    }
  };
  Settle settle{*this, row};
  auto job = [approval](Connection& db) { return insert_approval(db, approval); };
  CO_TRY_VOID(co_await db_->run(std::move(job)));
  row->kept_ = Row::Kept::kOnDisk;
  changed_(row->approval_);
  co_return row;
}

Task<State> Approvals::wait(RowPtr row, Steady::time_point until) {
  Waiter waiter(*this, *row);
  while (row->approval_.state == State::kPending && Steady::now() < until)
    co_await row->changed_.wait_until(until);
  co_await end_what_is_over(row);  // that its time was over is not to be told as pending
  waiter.answered = true;
  row->told_to_return_ |= row->approval_.state == State::kPending;
  co_return row->approval_.state;
}

// The database says who was first; what it says comes back in the order in which it was asked.
Task<Result<bool>> Approvals::change(RowPtr row, Approval now) {
  State from = row->approval_.state;
  WallTime expires = row->approval_.expires_at;
  auto job = [now, from, expires](Connection& db) { return change_approval(db, now, from, expires); };
  CO_TRY(bool first, co_await db_->run(std::move(job)));
  if (!first) co_return false;
  row->approval_ = std::move(now);
  if (!stands(row->approval_)) stand_down(*row);
  row->changed_.notify_all();
  changed_(row->approval_);
  co_return true;
}

Task<> Approvals::end(RowPtr row, State state, std::string because) {
  Approval now = row->approval_;
  now.state = state;
  now.ended_at = clock_.now();
  now.ended_because = std::move(because);
  auto changed = co_await change(row, std::move(now));
  if (!changed.ok())
    log::error("an approval could not be ended",
               {{"id", row->approval_.id}, {"what", changed.error().message()}});
}

Task<Result<bool>> Approvals::use(RowPtr row) {
  const Approval& known = row->approval_;
  if (known.state != State::kApproved || clock_.now() >= known.expires_at || !runs(known.question))
    co_return false;
  Approval now = known;
  now.state = State::kUsed;
  now.ended_at = clock_.now();
  co_return co_await change(row, std::move(now));
}

Task<Result<Approval>> Approvals::decide(std::string tenant, std::string id, Decision decision,
                                         std::string by, std::string reason) {
  auto found = rows_.find(id);
  bool known = found != rows_.end() && found->second->approval_.question.tenant == tenant &&
               found->second->kept_ == Row::Kept::kOnDisk;
  if (!known) co_return unknown(id);
  RowPtr row = found->second;
  co_await end_what_is_over(row);
  if (row->approval_.state != State::kPending) co_return not_pending(row->approval_);
  Approval now = row->approval_;
  now.state = decision == Decision::kApprove ? State::kApproved : State::kDenied;
  now.decided_at = clock_.now();
  now.expires_at = *now.decided_at + now.question.lasts;
  now.decided_by = std::move(by);
  now.reason = std::move(reason);
  CO_TRY(bool first, co_await change(row, std::move(now)));
  if (!first) co_return not_pending(row->approval_);
  co_return row->approval_;
}

Result<Approval> Approvals::get(const std::string& tenant, const std::string& id) const {
  auto found = rows_.find(id);
  bool known = found != rows_.end() && found->second->approval_.question.tenant == tenant &&
               found->second->kept_ == Row::Kept::kOnDisk;
  if (!known) return unknown(id);
  return found->second->approval_;
}

std::vector<Approval> Approvals::list(const std::string& tenant, const std::string& sandbox,
                                      std::optional<State> state, std::size_t most) const {
  std::vector<const Approval*> found;
  for (const auto& [id, row] : rows_) {
    const Approval& one = row->approval_;
    bool wanted = one.question.tenant == tenant && (sandbox.empty() || one.question.sandbox == sandbox) &&
                  (!state || one.state == *state) && row->kept_ == Row::Kept::kOnDisk;
    if (wanted) found.push_back(&one);
  }
  std::sort(found.begin(), found.end(), [](const Approval* a, const Approval* b) {
    return std::pair(a->created_at, a->id) > std::pair(b->created_at, b->id);
  });
  std::vector<Approval> out;
  for (std::size_t i = 0; i < std::min(found.size(), most); ++i) out.push_back(*found[i]);
  return out;
}

bool Approvals::runs(const Question& question) const {
  SandboxPtr now = registry_.find(question.sandbox);
  return now && now->generation == question.generation && now->state == model::State::kRunning;
}

std::optional<std::pair<State, std::string>> Approvals::end_of(const Row& row, bool sure) const {
  const Approval& approval = row.approval_;
  bool pending = approval.state == State::kPending;
  if (row.kept_ != Row::Kept::kOnDisk || (!pending && approval.state != State::kApproved))
    return std::nullopt;
  WallTime now = clock_.now();
  // Only when it is known what runs: after a start of the gateway nothing is, for a moment.
  if (sure && !runs(approval.question))
    return std::pair(State::kCancelled, std::string("the sandbox was paused or has ended"));
  if (now >= approval.expires_at) {
    return std::pair(State::kExpired, std::string(pending ? "nobody decided in time"
                                                          : "the request did not come again in time"));
  }
  bool left = pending && row.waiting_ == 0 && row.left_at_ && !row.told_to_return_;
  if (left && now >= *row.left_at_ + kGrace)
    return std::pair(State::kCancelled, std::string("no request waits for it any more"));
  return std::nullopt;
}

std::size_t Approvals::pending(const std::string& sandbox) const {
  return static_cast<std::size_t>(std::count_if(standing_.begin(), standing_.end(), [&](const auto& entry) {
    const Approval& approval = entry.second->approval_;
    return approval.state == State::kPending && approval.question.sandbox == sandbox;
  }));
}

Task<> Approvals::sandbox_changed(std::string sandbox) {
  std::vector<RowPtr> theirs;
  for (const auto& [fingerprint, row] : standing_) {
    if (row->approval_.question.sandbox == sandbox) theirs.push_back(row);
  }
  for (const RowPtr& row : theirs) {
    if (auto over = end_of(*row, true)) co_await end(row, over->first, over->second);
    if (is_moot(row->approval_)) stand_down(*row);
  }
}

// A denial that nobody can run into any more: it takes no room.
bool Approvals::is_moot(const Approval& approval) const {
  return approval.state == State::kDenied && !runs(approval.question);
}

Task<> Approvals::sweep() {
  std::vector<RowPtr> all;
  for (const auto& [fingerprint, row] : standing_) all.push_back(row);
  for (const RowPtr& row : all) {
    co_await end_what_is_over(row);
    bool moot = registry_.fresh() && is_moot(row->approval_);
    if (row->kept_ == Row::Kept::kOnDisk && (moot || !stands(row->approval_))) stand_down(*row);
  }
  if (std::exchange(some_are_over_, false)) co_await forget_oldest();
}

Task<> Approvals::end_what_is_over(RowPtr row) {
  if (auto over = end_of(*row, registry_.fresh())) co_await end(row, over->first, over->second);
}

Task<> Approvals::forget_oldest() {
  std::vector<RowPtr> over;
  for (const auto& [id, row] : rows_) {
    if (row->kept_ == Row::Kept::kOnDisk && !stands(row->approval_)) over.push_back(row);
  }
  std::sort(over.begin(), over.end(), [](const RowPtr& a, const RowPtr& b) {
    return a->approval_.created_at > b->approval_.created_at;
  });
  std::map<std::string, std::size_t> of_sandbox;
  for (std::size_t i = 0; i < over.size(); ++i) {
    const Approval& one = over[i]->approval_;
    if (++of_sandbox[one.question.sandbox] <= kMostOverPerSandbox && i < kMostOver) continue;
    std::string id = one.id;
    auto job = [id](Connection& db) { return erase_approval(db, id); };
    auto erased = co_await db_->run(std::move(job));
    if (!erased.ok()) co_return;
    rows_.erase(id);
  }
}

}  // namespace atl::gateway
