// SPDX-License-Identifier: Apache-2.0
//
// Approvals: the questions to people about requests of sandboxes, on disk and in memory, and the requests
// that wait for them. The row comes first, then the wait; a grant is used once or never, whatever dies in
// between.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/event.h"
#include "gateway/approvals/approval.h"
#include "gateway/sandboxes/registry.h"
#include "store/database.h"

namespace atl::gateway {

// Use from one loop. Requests that wait for one approval are bounded by those of their sandbox
// (flow/flows.h).
class Approvals {
 public:
  // Of those that stand: open ones, and denials that still hold. More are not asked about.
  static constexpr std::size_t kMostPerSandbox = 32;
  static constexpr std::size_t kMostPerTenant = 512;
  static constexpr std::size_t kMost = 8192;
  // Of those that are over, the oldest go first.
  static constexpr std::size_t kMostOverPerSandbox = 64;
  static constexpr std::size_t kMostOver = 20'000;
  // A question whose clients have gone away, without having been told to come back, is taken back after so
  // long: a client that gives up early tries again at once and finds it.
  static constexpr Millis kGrace{5000};

  // Opens or makes the file. Blocking. All must outlive this.
  static Result<std::unique_ptr<Approvals>> open(async::Executor executor, const std::string& path,
                                                 const Registry& registry, const Clock& clock);

  class Row;
  using RowPtr = std::shared_ptr<Row>;

  // The approval that stands for the same request, or a new one, on disk when it returns. kExhausted, word
  // "approvals_full", when there are too many.
  async::Task<Result<RowPtr>> ask(Question question);
  // Waits until it is not pending any more, or until `until`; its state then. Cancelled when its client has
  // gone.
  async::Task<ApprovalState> wait(RowPtr row, Steady::time_point until);
  // The one use of a grant. True: the caller sends the request, and nobody else ever does; it is on disk.
  async::Task<Result<bool>> use(RowPtr row);

  // A person's word. kNotFound when `tenant` has no such approval; kConflict when it is not pending.
  enum class Decision : bool { kDeny, kApprove };
  async::Task<Result<Approval>> decide(std::string tenant, std::string id, Decision decision, std::string by,
                                       std::string reason);

  // What the tenant may see of one; kNotFound.
  Result<Approval> get(const std::string& tenant, const std::string& id) const;
  // The newest first, at most `most`. An empty sandbox: of all.
  std::vector<Approval> list(const std::string& tenant, const std::string& sandbox,
                             std::optional<ApprovalState> state, std::size_t most) const;

  // Of one sandbox, how many nobody has decided yet.
  std::size_t pending(const std::string& sandbox) const;

  // The sandbox has changed: what was asked for it is taken back unless it still runs as it did.
  async::Task<> sandbox_changed(std::string sandbox);
  // Once a second: ends what is over, and forgets the oldest.
  async::Task<> sweep();

  // Called with each approval that is new or has changed, after it is on disk.
  void on_change(std::function<void(const Approval&)> call) { changed_ = std::move(call); }

 private:
  struct Waiter;
  Approvals(async::Executor executor, std::unique_ptr<store::Database> db, const Registry& registry,
            const Clock& clock)
      : executor_(std::move(executor)), db_(std::move(db)), registry_(registry), clock_(clock) {}
  Result<void> load();
  Result<void> check_room(const Question& question) const;
  async::Task<Result<RowPtr>> make(Question question);
  async::Task<Result<bool>> change(RowPtr row, Approval now);
  async::Task<> end(RowPtr row, ApprovalState state, std::string because);
  async::Task<> forget_oldest();
  // Why it ends now, when it does. `sure`: what runs is known, as it is whenever control is heard.
  std::optional<std::pair<ApprovalState, std::string>> end_of(const Row& row, bool sure) const;
  async::Task<> end_what_is_over(RowPtr row);
  void stand_down(const Row& row);
  bool is_moot(const Approval& approval) const;
  bool runs(const Question& question) const;
  bool stands(const Approval& approval) const;

  async::Executor executor_;
  std::unique_ptr<store::Database> db_;
  const Registry& registry_;
  const Clock& clock_;
  std::map<std::string, RowPtr> rows_;                // by id
  std::unordered_map<std::string, RowPtr> standing_;  // by fingerprint
  bool some_are_over_ = true;                         // since the oldest were looked at
  std::function<void(const Approval&)> changed_ = [](const Approval&) {};
};

// One approval, shared by those who wait for it.
class Approvals::Row {
 public:
  Row(async::Executor executor, Approval approval) : approval_(std::move(approval)), changed_(executor) {}
  const Approval& approval() const { return approval_; }

 private:
  friend class Approvals;
  enum class Kept : std::uint8_t { kNotYet, kOnDisk, kFailed };

  Approval approval_;
  async::Event changed_;
  Kept kept_ = Kept::kNotYet;
  std::size_t waiting_ = 0;
  bool told_to_return_ = false;      // some client knows that it is pending
  std::optional<WallTime> left_at_;  // when the last that waited went away
};

}  // namespace atl::gateway
