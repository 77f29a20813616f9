// SPDX-License-Identifier: Apache-2.0
//
// How a sandbox ends, whatever the reason: unreachable at once, intent written, the runner asked until the
// kernel has let go of everything, result written. One task per sandbox that ends; it survives the loss of
// the runner.
#include <sys/wait.h>

#include "control/service_impl.h"

namespace atl::control {
namespace {

constexpr Steady::duration kFirstRetry = std::chrono::milliseconds(200);
constexpr Steady::duration kEndAll = std::chrono::minutes(1);
constexpr Steady::duration kMaxRetry = std::chrono::seconds(10);

std::string exit_reason(const wire::ExitedEvent& event) {
  if (event.oom_kills > 0) return "the sandbox ran out of memory and its guest daemon was killed";
  if (event.wait_status < 0) return "the guest daemon is gone";
  if (WIFSIGNALED(event.wait_status))
    return fmt::format("the guest daemon was ended by signal {}", WTERMSIG(event.wait_status));
  return fmt::format("the guest daemon ended with exit code {}", WEXITSTATUS(event.wait_status));
}

}  // namespace

void SandboxService::begin_end(LivePtr live, Ending ending) {
  if (live->ending) return;
  live->ending = true;
  end_warming(*live);
  live->row.outcome = ending.outcome;
  live->row.reason = ending.reason;
  ++live->version;
  unpublish(live);
  live->changed.notify_all();
  FAULT("end.begun");
  scope_.spawn("end of " + live->row.id, end_task(live, std::move(ending)));
}

Task<> SandboxService::end_task(LivePtr live, Ending ending) {
  // What was under way with the guest is over.
  if (live->guest) live->guest->close();
  if (!model::terminal(live->row.state)) {
    bool failed = ending.last == model::State::kFailed;
    if (failed) live->row.ended_at = clock_.now();
    Step step;
    step.intent = failed ? model::Operation::kRelease : model::Operation::kStop;
    if (failed) {
      step.event = "sandbox.failed";
      step.message = "sandbox failed: " + ending.reason;
      step.data = event_data({{"outcome", ending.outcome}});
    }
    if (live->row.state != model::State::kStopping) {
      model::State next = failed ? model::State::kFailed : model::State::kStopping;
      auto moved = co_await move(live, next, std::move(step));
      // A full disk must not keep a sandbox alive. If control dies now, the runner's list tells the rest.
      live->end_unwritten = !moved;
      if (!moved)
        log::warn("could not write the end of a sandbox",
                  {{"id", live->row.id}, {"what", moved.error().message()}});
    }
    FAULT("end.intent_written");
  }
  auto stuck_after = clock_.steady_now() + model::bound(model::State::kStopping);
  Steady::duration retry = kFirstRetry;
  while (true) {
    auto released = co_await release_once(live);
    if (released) break;
    live->release_error = std::move(released).error();
    live->changed.notify_all();
    if (clock_.steady_now() >= stuck_after && live->row.state == model::State::kStopping) {
      Ending stuck;
      stuck.outcome = model::kOutcomeStopStuck;
      stuck.reason = live->release_error->message();
      stuck.last = model::State::kFailed;
      co_await write_end(live, std::move(stuck));
    }
    co_await runner_up_.wait_until(Steady::now() + retry);
    if (stopping_) co_return;
    retry = std::min(retry * 2, kMaxRetry);
  }
  FAULT("end.released");
  live->released = true;
  co_await write_end(live, ending);
  FAULT("end.written");
  live->place.release();
  live->kept.release();
  live_.erase(live->row.id);
  live->changed.notify_all();
  stopped_.notify_all();
  if (!catalog_.build(live->row.build)) ask_for_refill();  // its build may be unused now
  log::info("sandbox ended",
            {{"id", live->row.id}, {"outcome", live->row.outcome}, {"reason", live->row.reason}});
}

// Success when the runner holds nothing of it, also because it never knew it.
Task<Result<void>> SandboxService::release_once(LivePtr live) {
  auto pass = co_await stops_.enter(live->row.tenant);
  // Whatever its generation there: the id has one owner, and a resume may have been cut short.
  auto stopped = co_await runner_.stop_sandbox(live->row.id, 0);
  if (stopped || stopped.error().code() == Code::kNotFound) co_return success();
  co_return std::move(stopped).error();
}

// Writes the last row. It is not given up: as long as it is not written the row counts as ending, and the
// next start of control would finish it again.
Task<> SandboxService::write_end(LivePtr live, Ending ending) {
  Step step;
  if (!live->released) step.intent = model::Operation::kRelease;
  if (!model::terminal(live->row.state)) {
    bool stuck = ending.last == model::State::kFailed;
    live->row.outcome = ending.outcome;
    live->row.reason = ending.reason;
    if (!live->row.tenant.empty()) {
      step.event = stuck ? "sandbox.failed" : "sandbox.ended";
      step.message = fmt::format("sandbox {}: {}", stuck ? "failed" : "ended", ending.outcome);
      step.data = event_data({{"outcome", ending.outcome}});
    }
    set_state(*live, stuck ? model::State::kFailed : model::State::kStopped);
    live->row.ended_at = clock_.now();
  }
  ++live->version;
  Steady::duration retry = kFirstRetry;
  while (!stopping_) {
    auto saved = co_await save(live, step);
    if (saved) {
      live->end_unwritten = false;
      if (live->released) live->release_error.reset();
      co_return;
    }
    log::warn("could not write the end of a sandbox",
              {{"id", live->row.id}, {"what", saved.error().message()}});
    live->release_error = std::move(saved).error();
    live->changed.notify_all();
    if (!live->released) co_return;  // letting go matters more, and the row is written again after that
    co_await async::sleep_for(retry);
    retry = std::min(retry * 2, kMaxRetry);
  }
}

Task<Result<void>> SandboxService::kill(std::string tenant, std::string id) {
  auto found = live_.find(id);
  bool known = found != live_.end() && found->second->row.tenant == tenant && !tenant.empty();
  if (!known || model::terminal(found->second->row.state)) {
    co_return make_error(Code::kNotFound, "sandbox '{}' not found", id).with_word("sandbox_not_found");
  }
  LivePtr live = found->second;
  begin_end(live, Ending{model::kOutcomeKilled, std::string(), model::State::kStopped});
  while (live_.count(id) && !live->release_error) co_await live->changed.wait();
  if (!live->release_error) co_return success();
  const char* hint = "the end is on record and will be carried out; until then the sandbox cannot be reached";
  if (live->end_unwritten)
    hint = "its end could not be written down and is tried again; until then the sandbox cannot be reached";
  co_return Error(*live->release_error).with_hint(hint);
}

Task<Result<std::size_t>> SandboxService::end_all() {
  closed_ = true;
  std::size_t count = live_.size();
  auto limit = Steady::now() + kEndAll;
  for (auto& [key, pool] : pools_) drain_ready(pool, 0);
  // Creates and launches that were under way come to an end too, and what they made with them.
  while (creating_ > 0 || !live_.empty()) {
    std::vector<LivePtr> all;
    for (const auto& [id, live] : live_) all.push_back(live);
    for (const LivePtr& live : all)
      begin_end(live, Ending{model::kOutcomeShutDown, "Atoll was stopped", model::State::kStopped});
    bool ended = co_await stopped_.wait_until(limit);
    if (!ended)
      co_return make_error(Code::kDeadline, "{} sandboxes have not ended within a minute", live_.size());
  }
  co_return count;
}

void SandboxService::abandon(const std::string& id) {
  auto found = live_.find(id);
  if (found == live_.end()) return;
  begin_end(found->second, Ending{model::kOutcomeKilled, "the client was gone before it was created",
                                  model::State::kStopped});
}

void SandboxService::handle_exit(const wire::ExitedEvent& event) {
  auto found = live_.find(event.sandbox.str());
  if (found == live_.end()) {
    // Nobody's: the next reconcile, or the end task that is not far, takes care of what the runner holds.
    log::warn("an unknown sandbox ended", {{"id", event.sandbox.str()}});
    return;
  }
  LivePtr live = found->second;
  if (event.generation > live->row.generation || live->ending) return;
  FAULT("exit.noticed");
  const char* outcome = event.oom_kills > 0 ? model::kOutcomeOutOfMemory : model::kOutcomeAgentLost;
  leave_pool(live);
  begin_end(live, Ending{outcome, exit_reason(event), model::State::kFailed});
  ask_for_refill();
}

void SandboxService::fire_deadlines() {
  for (const std::string& id : deadlines_.pop_due(steady_ms())) {
    auto found = live_.find(id);
    if (found == live_.end() || found->second->row.state != model::State::kRunning) continue;
    FAULT("deadline.popped");
    if (found->second->row.lifecycle.on_timeout == model::Lifecycle::OnTimeout::kPause) {
      pause_at_deadline(found->second);
      continue;
    }
    begin_end(found->second, Ending{model::kOutcomeTimedOut, std::string(), model::State::kStopped});
  }
}

}  // namespace atl::control
