// SPDX-License-Identifier: Apache-2.0
//
// Sleep for want of work. A round looks at each sandbox that may sleep: requests are counted where they pass,
// CPU time comes from the runner, many sandboxes in one message, and the gateway and the guest daemon are
// asked about requests and processes only when all else is quiet. Who has been quiet for its idle time is
// paused.
#include <algorithm>

#include "control/service_impl.h"
#include "store/sandboxes.h"

namespace atl::control {
namespace {

constexpr Steady::duration kLongestRound = std::chrono::seconds(5);
constexpr Steady::duration kShortestRound = std::chrono::seconds(1);
constexpr std::int64_t kRoundsPerTimeout = 4;
constexpr Millis kAskAgain = std::chrono::minutes(1);  // what is told of a process is not older
constexpr Steady::duration kFresh = std::chrono::seconds(1);
constexpr std::int64_t kLagPart = 4;  // of the idle time: how far the store may be behind

// Of one core, over a round: what is below it is nobody's work. A kernel in user space, or emulated, uses
// some itself: an idle `gvisor` sandbox was seen with 2 to 5 %.
double cpu_floor(model::Tier tier) { return tier == model::Tier::kContainer ? 0.01 : 0.10; }

std::string_view word_of(Work work) {
  switch (work) {
    case Work::kRequest: return "request";
    case Work::kProcess: return "process";
    case Work::kCpu: return "cpu";
    case Work::kEgress: return "egress";
    case Work::kUnknown: return "unknown";
    default: return "recent";
  }
}

std::string detail_of(const GuestActivity& told) {
  std::string detail = fmt::format("process {} started through the API", told.pid);
  if (!told.command.empty()) detail += ": " + told.command;
  if (told.processes > 1) detail += fmt::format(" (and {} more)", told.processes - 1);
  return detail;
}

std::string detail_of(const EgressWork& work) {
  std::string detail;
  if (work.requests > 0) detail = fmt::format("{} under way", work.requests);
  if (work.approvals == 0) return detail;
  return fmt::format("{}{}{} waiting for a person", detail, detail.empty() ? "" : ", ", work.approvals);
}

// What the gateway has said. False when there is work.
bool take_told(Activity& activity, const EgressWork& work) {
  if (work.requests + work.approvals > 0) {
    activity.saw(Work::kEgress, std::string(), detail_of(work));
    return false;
  }
  if (activity.work() == Work::kEgress) activity.saw_none();
  if (work.quiet < activity.quiet()) activity.saw_past(work.quiet);
  return true;
}

// What the guest daemon has said.
void take_told(Activity& activity, const GuestActivity& told) {
  if (told.processes > 0) {
    activity.saw(Work::kProcess, fmt::format("{}", told.pid), detail_of(told));
  } else {
    activity.saw_none(told.quiet);
  }
}

bool may_sleep(const Live& live) {
  return live.row.state == model::State::kRunning && !live.ending &&
         live.row.lifecycle.idle_timeout.count() > 0;
}

}  // namespace

std::vector<LivePtr> SandboxService::idle_candidates() const {
  std::vector<LivePtr> out;
  for (const auto& [tenant, listing] : listed_) {
    for (const auto& [key, live] : listing.rows) {
      if (may_sleep(*live)) out.push_back(live);
    }
  }
  return out;
}

Task<> SandboxService::watch_work() {
  if (!reconciled_) co_return;
  std::vector<LivePtr> all = idle_candidates();
  std::vector<LivePtr> quiet;
  std::copy_if(all.begin(), all.end(), std::back_inserter(quiet),
               [](const LivePtr& live) { return live->activity->requests() == 0; });
  for (std::size_t from = 0; from < quiet.size(); from += wire::kUsageBatch) {
    std::size_t end = std::min(from + wire::kUsageBatch, quiet.size());
    std::vector<LivePtr> batch(quiet.begin() + static_cast<std::ptrdiff_t>(from),
                               quiet.begin() + static_cast<std::ptrdiff_t>(end));
    co_await read_usage(std::move(batch));
  }
  for (const LivePtr& live : quiet) look_at(live);
  co_await write_activity(std::move(all));
}

Task<> SandboxService::read_usage(std::vector<LivePtr> batch) {
  std::vector<std::string> names;
  for (const LivePtr& live : batch) {
    names.push_back(live->row.id);
    if (live->usage) live->usage->known = false;
  }
  auto used = co_await runner_.usage(std::move(names));
  // Without an answer nobody falls asleep: the interval that must have been quiet is not known.
  if (!used) co_return;
  auto now = clock_.steady_now();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Live& live = *batch[i];
    if (!may_sleep(live) || (*used)[i] == wire::kUsageUnknown) continue;
    auto before = std::exchange(live.usage, CpuReading{(*used)[i], now, live.row.generation});
    bool comparable = before && before->generation == live.row.generation && before->us <= live.usage->us &&
                      now > before->at;
    live.usage->known = comparable;
    if (!comparable) continue;
    double share =
        static_cast<double>(live.usage->us - before->us) /
        static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(now - before->at).count());
    if (share >= cpu_floor(live.row.tier)) {
      live.activity->saw(Work::kCpu, std::string(), fmt::format("{:.0f} % of a core", share * 100));
    } else if (live.activity->work() == Work::kCpu) {
      live.activity->saw_none();
    }
  }
}

// Spawns what takes long: one guest daemon that does not answer keeps nobody else awake.
void SandboxService::look_at(const LivePtr& live) {
  if (!may_sleep(*live) || live->asking || live->copying || live->activity->requests() > 0) return;
  Millis idle = live->row.lifecycle.idle_timeout;
  bool due = live->activity->quiet() >= idle && live->usage && live->usage->known;
  Work work = live->activity->work();
  bool told = work == Work::kProcess || work == Work::kEgress || work == Work::kUnknown;
  bool stale = told && live->activity->quiet() >= std::min(idle, kAskAgain);
  if (!due && !stale) return;
  live->asking = true;  // from now on, not only when the task has begun
  scope_.spawn("ask about work", ask_then_sleep(live));
}

Task<> SandboxService::ask_then_sleep(LivePtr live) {
  bool sleep = co_await ask(live);
  live->asking = false;
  // No request can have come since the question: from here to the closed door nothing waits.
  if (sleep && !stopping_) {
    Memory memory = live->row.lifecycle.keep_memory ? Memory::kKeep : Memory::kLose;
    auto done = co_await pause_live(live, memory, model::PauseCause::kIdle);
    if (!done) {
      live->activity->saw_none(Millis(0));  // it is tried again when its idle time has passed once more
      log::warn("not paused although it is idle", {{"id", live->row.id}, {"what", done.error().message()}});
    }
  }
  stopped_.notify_all();
}

// Asks the gateway what is under way there. True when that is nothing.
Task<bool> SandboxService::ask_gateway(LivePtr live) {
  auto told = co_await egress_.work_of(live->row.id);
  if (!may_sleep(*live)) co_return false;
  if (told.ok()) co_return take_told(*live->activity, *told);
  live->activity->saw(Work::kUnknown, "gateway", told.error().message());
  co_return false;
}

// Asks the gateway, then the guest daemon what it does. True when there is no work and has been none for the
// idle time.
Task<bool> SandboxService::ask(LivePtr live) {
  live->asked_at = clock_.steady_now();
  auto pass = co_await asks_.enter(live->row.tenant);
  if (!may_sleep(*live)) co_return false;  // its slot may be another's by now
  std::uint64_t begun = live->activity->begun();
  bool nothing_out_there = co_await ask_gateway(live);
  if (!nothing_out_there) co_return false;
  auto told = co_await live->guest->activity();
  live->guest->close();
  if (!may_sleep(*live) || live->copying || live->activity->begun() != begun) co_return false;
  if (told) {
    take_told(*live->activity, *told);
  } else {
    live->activity->saw(Work::kUnknown, std::string(), told.error().message());
  }
  co_return live->activity->quiet() >= live->row.lifecycle.idle_timeout;
}

// So that a restart of control does not begin the idle time anew.
Task<> SandboxService::write_activity(std::vector<LivePtr> all) {
  std::vector<store::ActivityMark> marks;
  for (const LivePtr& live : all) {
    if (!may_sleep(*live)) continue;
    auto last = std::chrono::duration_cast<Millis>(live->activity->last().time_since_epoch()).count();
    if (last - live->row.active_steady_ms < activity_lag(*live).count()) continue;
    live->row.active_steady_ms = last;
    marks.push_back({live->row.id, last});
  }
  if (marks.empty()) co_return;
  auto job = [marks = std::move(marks), epoch = epoch_](store::Connection& db) -> Result<void> {
    return store::save_activity(db, marks, epoch);
  };
  auto saved = co_await db_.run(std::move(job));
  if (!saved) log::warn("could not write when sandboxes had work", {{"what", saved.error().message()}});
}

Millis SandboxService::activity_lag(const Live& live) {
  return std::max(Millis(1000), live.row.lifecycle.idle_timeout / kLagPart);
}

// As late as it can have been: what the store says may be a little old.
void SandboxService::restore_activity(Live& live) const {
  auto last = Steady::time_point(Millis(live.row.active_steady_ms) + activity_lag(live));
  live.activity->restore(last + kLongestRound);
}

Steady::duration SandboxService::round_length() const {
  Steady::duration length = kLongestRound;
  for (const LivePtr& live : idle_candidates())
    length = std::min<Steady::duration>(length, live->row.lifecycle.idle_timeout / kRoundsPerTimeout);
  return std::max(length, kShortestRound);
}

Task<> SandboxService::idle_loop() {
  co_await async::asio::this_coro::throw_if_cancelled(false);
  while (!stopping_) {
    co_await async::sleep_for(round_length());
    if (!stopping_ && runner_.connected()) co_await watch_work();
  }
}

Wakefulness SandboxService::asleep(const model::SandboxRow& row) {
  Wakefulness out;
  out.awake = false;
  out.because = model::pause_cause_name(row.pause_cause);
  out.detail = row.memory_note;
  out.since = row.deadline;
  return out;
}

Wakefulness SandboxService::wakefulness(const std::string& id) const {
  auto found = live_.find(id);
  if (found == live_.end()) return Wakefulness();
  const Live& live = *found->second;
  if (live.row.state == model::State::kPaused) return asleep(live.row);
  Wakefulness out;
  out.because = "changing";
  out.since = live.row.started_at;
  if (live.row.state != model::State::kRunning) return out;
  bool stays = live.row.lifecycle.idle_timeout.count() == 0;
  Work work = live.activity->work();
  if (stays && work != Work::kRequest) {
    out.because = "no_idle_timeout";
    return out;
  }
  out.because = word_of(work);
  out.detail = work == Work::kRequest ? fmt::format("{} under way", live.activity->requests())
                                      : live.activity->detail();
  out.since = live.activity->since();
  if (work == Work::kNone) {
    Millis quiet = live.activity->quiet();
    out.since = clock_.now() - quiet;
    out.sleeps_at = clock_.now() + std::max(Millis(0), live.row.lifecycle.idle_timeout - quiet);
  }
  return out;
}

Task<Result<Wakefulness>> SandboxService::ask_wakefulness(std::string tenant, std::string id) {
  CO_TRY(LivePtr live, find_settled(tenant, id));
  // Not more often than it would cost the sandbox enough to be taken for work.
  bool fresh = clock_.steady_now() - live->asked_at < kFresh;
  if (may_sleep(*live) && live->activity->requests() == 0 && !fresh) (void)co_await ask(live);
  co_return wakefulness(id);
}

Task<Result<SandboxView>> SandboxService::set_idle_timeout(std::string tenant, std::string id,
                                                           Millis idle_timeout,
                                                           std::optional<bool> auto_resume) {
  CO_TRY(LivePtr live, find_settled(tenant, id));
  model::Lifecycle before = live->row.lifecycle;
  if (auto_resume == true && !before.keep_memory) {
    co_return make_error(Code::kInvalid, "autoResume: needs a pause that keeps the memory")
        .with_word("invalid_field")
        .with_hint("sandbox '" + id + "' was told to keep only its disk (autoPauseMemory)");
  }
  live->row.lifecycle.idle_timeout = idle_timeout;
  // Whoever slept before has been told already whether traffic wakes it.
  if (auto_resume || before.idle_timeout.count() == 0) set_waking(live->row.lifecycle, auto_resume);
  std::uint64_t version = ++live->version;
  live->activity->saw_none(Millis(0));
  live->row.active_steady_ms = steady_ms();
  if (live->route) show_state(live);
  Step step;
  step.event = "sandbox.idle_timeout";
  step.message = idle_timeout.count() > 0
                     ? fmt::format("sandbox pauses after {} s without work", idle_timeout.count() / 1000)
                     : "sandbox no longer pauses for want of work";
  auto saved = co_await save(live, std::move(step));
  if (!saved && live->version == version && !live->ending) {
    live->row.lifecycle = before;
    if (live->route) show_state(live);
  }
  CO_TRY_VOID(std::move(saved));
  if (live->ending) co_return ended_meanwhile(id);
  co_return SandboxView(live, &live->row);
}

// What falls asleep by itself is woken by traffic, unless somebody said otherwise: else it would seem lost.
void SandboxService::set_waking(model::Lifecycle& lifecycle, std::optional<bool> said) {
  if (said) lifecycle.auto_resume = *said;
  if (!said && lifecycle.idle_timeout.count() > 0 && lifecycle.keep_memory) lifecycle.auto_resume = true;
}

}  // namespace atl::control
