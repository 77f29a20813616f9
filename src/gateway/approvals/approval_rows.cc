// SPDX-License-Identifier: Apache-2.0
#include "gateway/approvals/approval_rows.h"

namespace atl::gateway {
namespace {

using store::Connection;
using store::Statement;

// Times that have not come are 0.
constexpr const char* kInitial = R"sql(
CREATE TABLE approvals (
  id            TEXT PRIMARY KEY,
  tenant        TEXT NOT NULL,
  sandbox       TEXT NOT NULL,
  generation    INTEGER NOT NULL,
  label         TEXT NOT NULL,
  rule          TEXT NOT NULL,
  fingerprint   TEXT NOT NULL,
  method        TEXT NOT NULL,
  url           TEXT NOT NULL,
  summary       TEXT NOT NULL,
  lasts         INTEGER NOT NULL,
  state         INTEGER NOT NULL,
  created_at    INTEGER NOT NULL,
  expires_at    INTEGER NOT NULL,
  decided_at    INTEGER NOT NULL,
  decided_by    TEXT NOT NULL,
  reason        TEXT NOT NULL,
  ended_at      INTEGER NOT NULL,
  ended_because TEXT NOT NULL
) STRICT;
)sql";

constexpr const char* kAll =
    "SELECT id, tenant, sandbox, generation, label, rule, fingerprint, method, url, summary, lasts, state, "
    "created_at, expires_at, decided_at, decided_by, reason, ended_at, ended_because FROM approvals";

std::int64_t ms_of(const std::optional<WallTime>& time) { return time ? time->ms : 0; }

std::optional<WallTime> time_of(std::int64_t ms) {
  if (ms == 0) return std::nullopt;
  return WallTime{ms};
}

Result<Approval> read_row(const Statement& row) {
  Approval out;
  out.id = row.text(0);
  Question& question = out.question;
  question.tenant = row.text(1);
  question.sandbox = row.text(2);
  question.generation = static_cast<std::uint64_t>(row.integer(3));
  question.label = row.text(4);
  question.rule = row.text(5);
  question.fingerprint = row.text(6);
  question.method = row.text(7);
  question.url = row.text(8);
  question.summary = row.text(9);
  question.lasts = Millis(row.integer(10));
  std::int64_t state = row.integer(11);
  if (state < 0 || state > static_cast<std::int64_t>(ApprovalState::kUsed))
    return make_error(Code::kCorrupt, "approval {} is in state {}, which there is not", out.id, state);
  out.state = static_cast<ApprovalState>(state);
  out.created_at = {row.integer(12)};
  out.expires_at = {row.integer(13)};
  out.decided_at = time_of(row.integer(14));
  out.decided_by = row.text(15);
  out.reason = row.text(16);
  out.ended_at = time_of(row.integer(17));
  out.ended_because = row.text(18);
  return out;
}

}  // namespace

std::vector<store::Migration> approval_migrations() { return {{"approvals_0001_initial", kInitial}}; }

Result<std::vector<Approval>> load_approvals(Connection& db) {
  std::vector<Approval> out;
  TRY(Statement rows, db.prepare(kAll));
  while (true) {
    TRY(bool more, rows.step());
    if (!more) return out;
    TRY(Approval approval, read_row(rows));
    out.push_back(std::move(approval));
  }
}

Result<void> insert_approval(Connection& db, const Approval& approval) {
  const Question& question = approval.question;
  TRY_VOID(db.run("INSERT INTO approvals VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", approval.id,
                  question.tenant, question.sandbox, question.generation, question.label, question.rule,
                  question.fingerprint, question.method, question.url, question.summary,
                  std::int64_t{question.lasts.count()}, static_cast<std::int64_t>(approval.state),
                  approval.created_at.ms, approval.expires_at.ms, ms_of(approval.decided_at),
                  approval.decided_by, approval.reason, ms_of(approval.ended_at), approval.ended_because));
  return success();
}

Result<bool> change_approval(Connection& db, const Approval& now, ApprovalState from,
                             WallTime was_to_expire) {
  TRY(int changed,
      db.run("UPDATE approvals SET state = ?, expires_at = ?, decided_at = ?, decided_by = ?, reason = ?, "
             "ended_at = ?, ended_because = ? WHERE id = ? AND state = ? AND expires_at = ?",
             static_cast<std::int64_t>(now.state), now.expires_at.ms, ms_of(now.decided_at), now.decided_by,
             now.reason, ms_of(now.ended_at), now.ended_because, now.id, static_cast<std::int64_t>(from),
             was_to_expire.ms));
  return changed == 1;
}

Result<void> erase_approval(Connection& db, const std::string& id) {
  TRY_VOID(db.run("DELETE FROM approvals WHERE id = ?", id));
  return success();
}

}  // namespace atl::gateway
