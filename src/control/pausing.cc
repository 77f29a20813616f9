// SPDX-License-Identifier: Apache-2.0
//
// How a sandbox comes to rest: unreachable at once, intent written, the guest asked to write its data out,
// the runner asked until it says that all stands still, result written. After a crash it is finished; what
// the runner refuses is undone.
#include "async/detach.h"
#include "base/check.h"
#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr Steady::duration kFirstRetry = std::chrono::milliseconds(200);
constexpr Steady::duration kMaxRetry = std::chrono::seconds(10);
constexpr Steady::duration kLongestGrace = std::chrono::seconds(10);  // longer than that of the gateway
constexpr Steady::duration kAskAgain = std::chrono::milliseconds(50);
constexpr Millis kAgainAfterFailure = std::chrono::seconds(10);  // a pause by the deadline

std::string pause_message(const model::SandboxRow& row) {
  std::string why;
  if (row.pause_cause == model::PauseCause::kDeadline) why = " at its deadline";
  if (row.pause_cause == model::PauseCause::kIdle)
    why = fmt::format(" after {} s without work", row.lifecycle.idle_timeout.count() / 1000);
  std::string what = row.rests_in_memory ? row.memory_note : "only its disk is kept";
  return fmt::format("sandbox paused{}{}{}", why, what.empty() ? "" : ", ", what);
}

// Empty unless its memory could have been in files and is not.
std::string memory_note(const wire::PauseReply& rested, std::uint64_t outside) {
  if (rested.rest != wire::Rest::kFrozen) return {};
  if (outside > 0)
    return fmt::format("its memory cannot be stored in files now: {} of its connections lead to the outside",
                       outside);
  return rested.why.str();
}

}  // namespace

bool fate_unknown(const Error& error) {
  return error.word() == "runner_unavailable" || error.word() == "runner_slow" || error.word() == "capacity";
}

Error ended_meanwhile(const std::string& id) {
  return make_error(Code::kNotFound, "sandbox '{}' ended meanwhile", id).with_word("sandbox_not_found");
}

// The work goes on when the client goes away in the middle.
Task<Result<void>> SandboxService::pause(std::string tenant, std::string id, Memory memory) {
  co_return co_await async::finish_in(scope_, "pause", pause_now(std::move(tenant), std::move(id), memory));
}

Task<Result<void>> SandboxService::pause_now(std::string tenant, std::string id, Memory memory) {
  CO_TRY(LivePtr live, find_running(tenant, id));
  auto settle = [&] { return require_tier(live->row.tier); };
  CO_TRY_VOID(co_await when_tested(settle));
  CO_TRY(live, find_running(tenant, id));  // it may have moved meanwhile
  co_return co_await pause_live(live, memory, model::PauseCause::kAsked);
}

Task<Result<void>> SandboxService::pause_live(LivePtr live, Memory memory, model::PauseCause cause) {
  while (live->copying && !live->ending) co_await live->changed.wait();
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (live->row.state != model::State::kRunning) co_return not_running(live->row);
  bool renewed = live->row.deadline_steady_ms > steady_ms();
  if (cause == model::PauseCause::kDeadline && renewed) co_return success();  // while it was copied
  WallTime deadline = live->row.deadline;
  live->row.rests_in_memory = memory == Memory::kKeep;
  live->row.deadline = clock_.now();
  live->row.pause_cause = cause;
  deadlines_.erase(live->row.id);
  close_door(live);
  live->laps.begin();
  Step step;
  step.intent = model::Operation::kPause;
  auto moved = co_await move(live, model::State::kPausing, std::move(step));
  live->laps.lap(live->laps.intent_us);
  FAULT("pause.intent_written");
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (!moved) {
    stay_awake(live, deadline);
    co_return std::move(moved).error();
  }
  show_state(live);
  // When a pause is told to have been, nothing of the sandbox is on its way out any more.
  if (egress_.connected() && !live->row.interface.empty()) co_await let_requests_end(live);
  if (live->ending) co_return ended_meanwhile(live->row.id);
  // A guest daemon that does not answer does not keep its sandbox awake: the kernel has what was written.
  // What stays in memory need not be on the disk: with the machine both would go (0080). Other tiers leave
  // files.
  bool in_place = memory == Memory::kKeep && live->row.tier == model::Tier::kContainer;
  FreezeOrder order;
  order.stop = memory == Memory::kLose;
  order.sync = !in_place;
  order.outside = memory == Memory::kKeep && needs_quiet(*live);
  auto asked = co_await live->guest->freeze(order);
  if (order.outside) {
    break_off(live);  // after the word with which streams end
    live->guest->close();
  }
  live->outside = asked ? *asked : 0;
  if (!asked)
    log::warn("pausing without the guest daemon", {{"id", live->row.id}, {"what", asked.error().message()}});
  live->laps.lap(live->laps.guest_us);
  FAULT("pause.guest_asked");
  co_return co_await finish_pause(live);
}

// Nothing new goes out. The gateway knows what is under way, and after its grace there is nothing.
Task<> SandboxService::let_requests_end(LivePtr live) {
  auto until = Steady::now() + kLongestGrace;
  while (true) {
    auto known = co_await egress_.make_known(facts_for_gateway(live->row));
    bool quiet = !known || known->under_way == 0;
    if (quiet || live->ending || stopping_ || Steady::now() >= until) co_return;
    co_await async::sleep_for(kAskAgain);
  }
}

// Whether the tier can store memory only while nobody is connected.
bool SandboxService::needs_quiet(const Live& live) const {
  const wire::HelloReply& hello = runner_.hello();
  return (hello.memory_tiers & hello.quiet_tiers & (1u << static_cast<unsigned>(live.row.tier))) != 0;
}

// A pause that could not be written down did not begin. One by the deadline is tried again, but not at once.
void SandboxService::stay_awake(const LivePtr& live, WallTime deadline) {
  live->row.deadline = deadline;
  if (live->row.deadline_steady_ms <= steady_ms()) set_deadline(*live, kAgainAfterFailure);
  publish(live);
}

bool worth_repeating(const Error& error) {
  return fate_unknown(error) || error.word() == "sandbox_busy" || error.word() == "runner_busy";
}

// What ends all processes and then fails may be repeated, and must be: it no longer runs.
bool SandboxService::ask_again(const Live& live, const Error& error) {
  return worth_repeating(error) || (!live.row.rests_in_memory && error.code() == Code::kDeadline);
}

// Until the runner has said yes or no, or the state's bound has passed.
Task<Result<wire::PauseReply>> SandboxService::rest_in_runner(LivePtr live) {
  auto until = clock_.steady_now() + model::bound(model::State::kPausing);
  Steady::duration retry = kFirstRetry;
  while (true) {
    auto rested = co_await runner_.pause_sandbox(live->row.id, live->row.rests_in_memory, live->outside > 0);
    if (rested || !ask_again(*live, rested.error())) co_return rested;
    if (live->ending || stopping_ || clock_.steady_now() >= until) co_return rested;
    co_await runner_up_.wait_until(Steady::now() + retry);
    retry = std::min(retry * 2, kMaxRetry);
  }
}

Task<Result<void>> SandboxService::finish_pause(LivePtr live) {
  auto rested = co_await rest_in_runner(live);
  live->laps.lap(live->laps.runner_us);
  FAULT("pause.rested");
  live->guest->close();
  if (live->ending) co_return ended_meanwhile(live->row.id);
  if (stopping_ && !rested) co_return std::move(rested).error();
  if (stopping_) co_return success();  // the next start finishes it
  if (!rested) co_return co_await undo_pause(live, std::move(rested).error());
  break_off(live);
  if (wire::on_disk(rested->rest)) leave_slot(*live, rested->kept_bytes);
  live->row.memory_note = memory_note(*rested, live->outside);
  Step step;
  step.event = "sandbox.paused";
  step.message = pause_message(live->row);
  step.data = event_data({{"memory", live->row.rests_in_memory ? "kept" : "lost"},
                          {"rests", wire::on_disk(rested->rest) ? "on disk" : "in memory"},
                          {"cause", model::pause_cause_name(live->row.pause_cause)}});
  conclude(live, model::State::kPaused, std::move(step));
  log::info("sandbox paused", {{"id", live->row.id},
                               {"memory", live->row.rests_in_memory},
                               {"cause", model::pause_cause_name(live->row.pause_cause)},
                               {"intent_us", live->laps.intent_us},
                               {"guest_us", live->laps.guest_us},
                               {"runner_us", live->laps.runner_us}});
  co_return success();
}

// It runs as before, or, when that cannot be known, counts as running; the next reconcile tells.
Task<Result<void>> SandboxService::undo_pause(LivePtr live, Error why) {
  if (why.code() == Code::kNotFound) {
    begin_end(live, Ending{model::kOutcomeLost, "the runner no longer knows it", model::State::kFailed});
    co_return why;
  }
  auto told = co_await live->guest->init(identity_of(live->row));
  if (!told)
    log::warn("could not call off a pause", {{"id", live->row.id}, {"what", told.error().message()}});
  live->guest->close();
  if (live->ending) co_return why;
  auto left = Millis(live->row.deadline_steady_ms - steady_ms());
  set_deadline(*live, std::max(left, kAgainAfterFailure));
  Step step;
  step.event = "sandbox.pause_failed";
  step.message = "sandbox not paused: " + why.message();
  CO_TRY_VOID(co_await write_result(live, model::State::kRunning, std::move(step)));
  publish(live);
  // The runner may carry it out all the same, later.
  if (fate_unknown(why) && runner_.connected()) scope_.spawn("reconcile", reconcile());
  co_return why;
}

// What the kernel has done is not taken back because a row cannot be written: it is tried until it is.
Task<Result<void>> SandboxService::write_result(LivePtr live, model::State to, Step step) {
  Steady::duration retry = kFirstRetry;
  while (true) {
    if (live->ending) co_return ended_meanwhile(live->row.id);
    auto moved = co_await move(live, to, step);
    if (live->ending) co_return ended_meanwhile(live->row.id);
    if (moved) {
      show_state(live);
      stopped_.notify_all();
      co_return moved;
    }
    if (stopping_) co_return moved;
    log::warn("could not write a state", {{"id", live->row.id}, {"what", moved.error().message()}});
    co_await async::sleep_for(retry);
    retry = std::min(retry * 2, kMaxRetry);
  }
}

// Nobody waits for the row of a result: until it is written the intent says the same, and whoever starts next
// finishes it. Not for a boot from disk, which cannot be finished twice.
void SandboxService::conclude(LivePtr live, model::State to, Step step) {
  CHECK(model::legal(live->row.state, to), "sandbox {}: {} to {}", live->row.id,
        model::state_name(live->row.state), model::state_name(to));
  set_state(*live, to);
  ++live->version;
  show_state(live);
  scope_.spawn("result of " + live->row.id, write_conclusion(live, std::move(step)));
  live->changed.notify_all();
  stopped_.notify_all();
}

Task<> SandboxService::write_conclusion(LivePtr live, Step step) {
  model::State state = live->row.state;
  Steady::duration retry = kFirstRetry;
  while (!live->ending) {
    auto saved = co_await save(live, step);
    FAULT("result.written");
    if (saved || live->ending || stopping_) co_return;
    log::warn("could not write a state", {{"id", live->row.id}, {"what", saved.error().message()}});
    co_await async::sleep_for(retry);
    retry = std::min(retry * 2, kMaxRetry);
    if (live->row.state != state) co_return;  // what came after it writes the row
  }
}

Task<> SandboxService::recover_pause(LivePtr live) {
  auto done = co_await finish_pause(live);
  if (!done)
    log::warn("an interrupted pause was not finished",
              {{"id", live->row.id}, {"what", done.error().message()}});
}

// The row says that it is paused, and the runner lets it run: a resume was undone without the runner.
Task<> SandboxService::keep_at_rest(LivePtr live) {
  auto rested = co_await runner_.pause_sandbox(live->row.id, live->row.rests_in_memory);
  if (!rested) {
    log::warn("could not bring a paused sandbox to rest",
              {{"id", live->row.id}, {"what", rested.error().message()}});
    co_return;
  }
  if (live->ending || !wire::on_disk(rested->rest)) co_return;
  if (live->row.interface.empty()) {
    keep_on_disk(*live, rested->kept_bytes);  // it may have lost its memory since
    co_return;
  }
  leave_slot(*live, rested->kept_bytes);
  if (live->row.state != model::State::kPaused) co_return;  // whoever changes that writes the row
  auto saved = co_await save(live, Step());
  if (!saved) log::warn("could not write a row", {{"id", live->row.id}, {"what", saved.error().message()}});
}

// As above, of one that nobody is about to wake: whoever wants to waits until it is over.
Task<> SandboxService::rest_again(LivePtr live) {
  while (live->copying && !live->ending) co_await live->changed.wait();
  if (live->ending || live->row.state != model::State::kPaused) co_return;
  live->copying = true;
  co_await keep_at_rest(live);
  live->copying = false;
  live->changed.notify_all();
}

// The runner has taken back all but the disk, and the memory that lies in files.
void SandboxService::leave_slot(Live& live, std::uint64_t kept_bytes) {
  live.row.slot = 0;
  live.row.interface.clear();
  live.row.pid = 0;
  live.place.release();
  keep_on_disk(live, kept_bytes);
}

std::uint64_t most_on_disk(const model::SandboxRow& row) {
  bool rests = row.state == model::State::kPausing || row.state == model::State::kPaused ||
               row.state == model::State::kResuming;
  return row.limits.disk_bytes + (rests && row.rests_in_memory ? row.limits.memory_bytes : 0);
}

void SandboxService::keep_on_disk(Live& live, std::uint64_t bytes) {
  live.kept.release();
  live.kept = quota_->adopt(live.row.tenant, on_disk(bytes));
}

// The row says that it runs, and the runner has it at rest: a pause was undone without the runner.
Task<> SandboxService::follow_rest(LivePtr live, bool in_memory) {
  if (live->ending || live->row.state != model::State::kRunning) co_return;
  WallTime deadline = std::exchange(live->row.deadline, clock_.now());
  live->row.rests_in_memory = in_memory;
  live->row.pause_cause = model::PauseCause::kAsked;
  deadlines_.erase(live->row.id);
  close_door(live);
  Step step;
  step.intent = model::Operation::kPause;
  auto moved = co_await move(live, model::State::kPausing, std::move(step));
  if (live->ending) co_return;
  if (!moved) {
    stay_awake(live, deadline);
    co_return;
  }
  show_state(live);
  co_await recover_pause(live);
}

void SandboxService::pause_at_deadline(LivePtr live) {
  bool keep = live->row.lifecycle.keep_memory;
  auto task = [](SandboxService* service, LivePtr one, Memory memory) -> Task<> {
    auto done = co_await service->pause_live(one, memory, model::PauseCause::kDeadline);
    if (!done)
      log::warn("not paused at its deadline", {{"id", one->row.id}, {"what", done.error().message()}});
  };
  scope_.spawn("pause of " + live->row.id, task(this, live, keep ? Memory::kKeep : Memory::kLose));
}

}  // namespace atl::control
