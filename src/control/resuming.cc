// SPDX-License-Identifier: Apache-2.0
//
// How a paused sandbox goes on: intent with the next generation written, the runner asked, the guest told the
// time, fresh random bytes and the generation before anybody can reach it, result written.
#include "async/detach.h"
#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr Steady::duration kFirstRetry = std::chrono::milliseconds(200);
constexpr Steady::duration kMaxRetry = std::chrono::seconds(10);
constexpr Millis kWokenAtLeast = std::chrono::seconds(300);  // of a sandbox that traffic wakes

Error no_such(const std::string& id) {
  return make_error(Code::kNotFound, "sandbox '{}' not found", id)
      .with_word("sandbox_not_found")
      .with_hint("it may have reached its timeout or been killed; 'atoll get " + id + "' says so");
}

bool occupied(const Live& live) {
  model::State state = live.row.state;
  return state == model::State::kPausing || state == model::State::kResuming ||
         (state == model::State::kPaused && live.copying);
}

}  // namespace

Task<Result<SandboxService::Connected>> SandboxService::connect(std::string tenant, std::string id,
                                                                Millis timeout, Memory memory) {
  auto task = connect_now(std::move(tenant), std::move(id), timeout, memory);
  co_return co_await async::finish_in(scope_, "connect", std::move(task));
}

Task<Result<SandboxService::Connected>> SandboxService::connect_now(std::string tenant, std::string id,
                                                                    Millis timeout, Memory memory) {
  LivePtr live = find_visible(tenant, id);
  if (!live) co_return no_such(id);
  // A copy of a disk ends before what it copies wakes.
  while (occupied(*live) && !live->ending) co_await live->changed.wait();
  if (live->ending) co_return no_such(id);
  if (live->row.state == model::State::kPaused && being_tested(live->row.tier)) {
    auto settle = [&] { return require_tier(live->row.tier); };
    CO_TRY_VOID(co_await when_tested(settle));
    co_return co_await connect_now(std::move(tenant), std::move(id), timeout, memory);  // it may have woken
  }
  Connected out;
  if (live->row.state == model::State::kPaused) {
    CO_TRY_VOID(co_await resume_live(live, timeout, memory));
    out.row = SandboxView(live, &live->row);
    out.resumed = true;
    co_return out;
  }
  CO_TRY(out.row, co_await set_timeout(tenant, id, timeout, Extend::kExtendOnly));
  co_return out;
}

Task<Result<void>> SandboxService::resume_live(LivePtr live, Millis timeout, Memory memory) {
  CO_TRY_VOID(require_tier(live->row.tier));
  auto before = std::make_pair(live->row.deadline, live->row.rests_in_memory);
  ++live->row.generation;
  set_deadline(*live, timeout);
  if (memory == Memory::kLose) live->row.rests_in_memory = false;
  live->laps.begin();
  Step step;
  step.intent = model::Operation::kResume;
  auto moved = co_await move(live, model::State::kResuming, std::move(step));
  live->laps.lap(live->laps.intent_us);
  FAULT("resume.intent_written");
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (!moved) {
    std::tie(live->row.deadline, live->row.rests_in_memory) = before;
    show_state(live);
    co_return std::move(moved).error();
  }
  show_state(live);
  auto placed = co_await take_place(live);
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (!placed) {
    live->row.rests_in_memory = before.second;  // nothing was asked of the runner
    co_return co_await undo_resume(live, std::move(placed).error());
  }
  co_return co_await finish_resume(live);
}

Task<Result<void>> SandboxService::take_place(LivePtr live) {
  if (live->place) co_return success();
  Amounts demand = amounts_for(live->row.tier, live->row.limits);
  demand.disk_bytes -= std::min(demand.disk_bytes, live->kept.held().disk_bytes);
  CO_TRY(live->place, co_await reserve_place(live->row.tenant, demand));
  co_return success();
}

// It runs: its disk may grow to its limit, and what memory it had in files is gone.
void SandboxService::take_whole_place(Live& live) {
  if (!live.kept) return;
  Amounts whole = live.place.held();
  whole.disk_bytes = live.row.limits.disk_bytes;
  live.kept.release();
  live.place.release();
  live.place = quota_->adopt(live.row.tenant, whole);
}

Task<Result<void>> SandboxService::wake_in_runner(LivePtr live) {
  auto until = clock_.steady_now() + model::bound(model::State::kResuming);
  Steady::duration retry = kFirstRetry;
  while (true) {
    auto pass = co_await starts_.enter(live->row.tenant);
    // A reboot of one that rests in memory: its memory goes first.
    Result<wire::PauseReply> stored = wire::PauseReply();
    // The slot goes with it, to somebody else.
    if (!live->row.rests_in_memory) egress_.gone(live->row.id, live->row.generation);
    if (!live->row.rests_in_memory) stored = co_await runner_.pause_sandbox(live->row.id, false);
    Result<wire::StartReply> woken = make_error(Code::kInternal, "");
    if (stored) {
      wire::StartRequest request = start_request(*live);
      request.memory = live->row.rests_in_memory ? 1 : 0;
      woken = co_await runner_.resume_sandbox(request);
    } else {
      woken = std::move(stored).error();
    }
    if (woken) {
      take_start_reply(*live, *woken);
      co_return success();
    }
    if (!worth_repeating(woken.error()) || live->ending || stopping_ || clock_.steady_now() >= until)
      co_return std::move(woken).error();
    co_await runner_up_.wait_until(Steady::now() + retry);
    retry = std::min(retry * 2, kMaxRetry);
  }
}

Task<Result<void>> SandboxService::finish_resume(LivePtr live) {
  auto placed = co_await take_place(live);
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (!placed) co_return co_await undo_resume(live, std::move(placed).error());
  used_builds_.insert(live->row.build);
  // What wakes where it stands may send at once.
  if (live->row.rests_in_memory && !live->row.interface.empty())
    (void)co_await egress_.make_known(facts_for_gateway(live->row));
  auto woken = co_await wake_in_runner(live);
  live->laps.lap(live->laps.runner_us);
  FAULT("resume.woken");
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (stopping_) co_return woken;  // the next start finishes it
  // One that boots has none yet.
  if (woken) woken = co_await make_labels_again(live);
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (!woken) co_return co_await undo_resume(live, std::move(woken).error());
  EgressFacts facts = facts_for_gateway(live->row);
  facts.state = model::State::kRunning;
  facts.hand_over = true;
  auto known = co_await egress_.make_known(std::move(facts));
  if (live->ending) co_return ended_meanwhile(live->row.id);
  GuestIdentity identity = identity_of(live->row);
  if (known) set_trust(identity, *known);
  auto told = co_await live->guest->init(std::move(identity));
  live->labels_told = told.ok();
  if (told && known) live->trusts = std::move(known->authority_root);
  live->laps.lap(live->laps.guest_us);
  FAULT("resume.initialised");
  live->guest->close();
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (!told) co_return co_await undo_resume(live, std::move(told).error());
  take_whole_place(*live);
  live->row.started_at = clock_.now();
  live->activity->saw_none(Millis(0));  // who was just woken is not idle
  live->row.active_steady_ms = steady_ms();
  Step step;
  step.event = "sandbox.resumed";
  step.message = "sandbox resumed";
  step.data = event_data({{"generation", fmt::format("{}", live->row.generation)},
                          {"memory", live->row.rests_in_memory ? "kept" : "lost"}});
  if (live->row.rests_in_memory) {
    conclude(live, model::State::kRunning, std::move(step));
  } else {
    // To finish a boot once more is to kill what has begun to run.
    CO_TRY_VOID(co_await write_result(live, model::State::kRunning, std::move(step)));
  }
  publish(live);
  log::info("sandbox resumed", {{"id", live->row.id},
                                {"generation", live->row.generation},
                                {"intent_us", live->laps.intent_us},
                                {"guest_us", live->laps.guest_us},
                                {"runner_us", live->laps.runner_us}});
  co_return success();
}

// Back to rest, also in the runner. Where that cannot be known, the next reconcile sees to it.
Task<Result<void>> SandboxService::undo_resume(LivePtr live, Error why) {
  if (why.code() == Code::kNotFound) {
    begin_end(live, Ending{model::kOutcomeLost, "the runner no longer knows it", model::State::kFailed});
    co_return why;
  }
  co_await keep_at_rest(live);
  if (live->ending) co_return why;
  if (!live->row.rests_in_memory || live->row.interface.empty()) {
    live->place.release();
    // Where the runner could not be asked, what it tells later counts.
    if (!live->kept) keep_on_disk(*live, most_on_disk(live->row));
  }
  live->row.deadline = clock_.now();
  Step step;
  step.event = "sandbox.resume_failed";
  step.message = "sandbox not resumed: " + why.message();
  CO_TRY_VOID(co_await write_result(live, model::State::kPaused, std::move(step)));
  co_return why;
}

Task<> SandboxService::recover_resume(LivePtr live) {
  auto done = co_await finish_resume(live);
  if (!done)
    log::warn("an interrupted resume was not finished",
              {{"id", live->row.id}, {"what", done.error().message()}});
}

Task<Result<RoutePtr>> SandboxService::wake(std::string sandbox) {
  co_return co_await async::finish_in(scope_, "wake", wake_now(std::move(sandbox)));
}

Task<Result<RoutePtr>> SandboxService::wake_now(std::string id) {
  while (true) {
    auto found = live_.find(id);
    if (found == live_.end() || found->second->ending || !found->second->route) co_return no_such(id);
    LivePtr live = found->second;
    // The route, because that it runs is shown only when it is written.
    if (live->route->state == model::State::kRunning) co_return live->route;
    if (live->row.state != model::State::kPaused || live->copying) {
      co_await live->changed.wait();
      continue;
    }
    if (!live->route->auto_resume) co_return no_such(id);
    if (being_tested(live->row.tier)) {
      auto settle = [&] { return require_tier(live->row.tier); };
      CO_TRY_VOID(co_await when_tested(settle));
      continue;
    }
    CO_TRY_VOID(
        co_await resume_live(live, std::max(live->row.lifecycle.timeout, kWokenAtLeast), Memory::kKeep));
  }
}

}  // namespace atl::control
