// SPDX-License-Identifier: Apache-2.0
#include "gateway/flow/events.h"

#include <algorithm>
#include <utility>

namespace atl::gateway {
namespace {

constexpr std::size_t kMaxPaces = 8192;
constexpr std::size_t kMaxTarget = 512;

}  // namespace

bool Events::too_many(const std::string& sandbox, WallTime now) {
  if (pace_.size() >= kMaxPaces) pace_.clear();
  Pace& pace = pace_[sandbox];
  std::int64_t second = now.ms / 1000;
  if (pace.second != second) pace = {second, 0};
  return ++pace.count > kMostPerSandboxAndSecond;
}

void Events::add(const Sandbox& sandbox, std::string type, std::string_view target, std::string rule,
                 std::string reason, const std::string& label) {
  WallTime now = clock_.now();
  if (too_many(sandbox.id, now)) {
    ++lost_;
    return;
  }
  keep({now, sandbox.tenant, sandbox.id, std::move(type), std::string(target.substr(0, kMaxTarget)),
        std::move(rule), std::move(reason), label});
}

void Events::keep(EgressEvent event) {
  if (waiting_.size() >= kMost) {
    waiting_.pop_front();
    ++first_;
    ++lost_;
  }
  waiting_.push_back(std::move(event));
}

void Events::add(const Approval& approval) {
  WallTime now = clock_.now();
  const Question& question = approval.question;
  if (!approval.decided_at && too_many(question.sandbox, now)) {
    ++lost_;
    return;
  }
  bool asked = approval.state == ApprovalState::kPending;
  std::string_view state = asked ? "asked" : approval_state_name(approval.state);
  std::string said = approval.ended_because.empty() ? approval.reason : approval.ended_because;
  EgressEvent event{now, question.tenant, question.sandbox, fmt::format("approval.{}", state)};
  event.target = fmt::format("{} {}", question.method, question.url).substr(0, kMaxTarget);
  event.rule = question.rule;
  event.reason = fmt::format("approval {} {}{}{}", approval.id, asked ? "waits for a person" : state,
                             said.empty() ? "" : ": ", said);
  event.label = question.label;
  event.approval = approval.id;
  event.decided_by = approval.decided_by;
  keep(std::move(event));
}

void Events::denied(const Sandbox& sandbox, std::string_view target, const policy::Refusal& refusal,
                    const std::string& label) {
  add(sandbox, "egress.denied", target, refusal.rule, refusal.reason, label);
}

Events::Batch Events::after(std::uint64_t have) {
  for (; !waiting_.empty() && first_ <= have; ++first_) waiting_.pop_front();
  Batch batch;
  batch.lost = std::exchange(lost_, 0);
  auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMostPerBatch));
  batch.events.assign(waiting_.begin(), end);
  batch.last = batch.events.empty() ? have : first_ + batch.events.size() - 1;
  return batch;
}

}  // namespace atl::gateway
