// SPDX-License-Identifier: Apache-2.0
//
// Activity: what keeps one sandbox awake, as far as control sees it, and when it had work last. Plain data;
// use from the control loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"

namespace atl::control {

// What counts as work.
enum class Work : std::uint8_t {
  kNone,     // nothing now; it was used not long ago
  kRequest,  // a client's request or stream is under way
  kProcess,  // a process that was started through the API runs
  kCpu,      // it uses the processor
  kEgress,   // a request of its own is under way, or waits for a person
  kUnknown,  // its guest daemon or the gateway does not say, so it may have some
};

class Activity {
 public:
  explicit Activity(const Clock& clock)
      : clock_(clock), last_(clock.steady_now()), since_(clock.now()), begun_(0) {}

  // A client's request, from its admission to its last byte.
  class Request {
   public:
    explicit Request(std::shared_ptr<Activity> activity) : activity_(std::move(activity)) {
      if (activity_) activity_->begin();
    }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request() {
      if (activity_) activity_->end();
    }

   private:
    std::shared_ptr<Activity> activity_;  // nullptr: nobody counts
  };

  std::size_t requests() const { return requests_; }
  std::uint64_t begun() const { return begun_; }  // requests, ever: tells whether one came in between
  Work work() const { return requests_ > 0 ? Work::kRequest : work_; }
  const std::string& detail() const { return detail_; }  // for people
  WallTime since() const { return since_; }              // it has been awake for that reason
  Steady::time_point last() const { return requests_ > 0 ? clock_.steady_now() : last_; }  // work was seen
  Millis quiet() const { return std::chrono::duration_cast<Millis>(clock_.steady_now() - last()); }

  // There is work of this kind now. The same kind of the same `who` goes on.
  void saw(Work work, std::string who = {}, std::string detail = {}) {
    if (work_ != work || who_ != who) since_ = clock_.now();
    work_ = work;
    who_ = std::move(who);
    detail_ = std::move(detail);
    last_ = clock_.steady_now();
  }
  // There is none; the last was no longer ago than `most`, where that is known.
  void saw_none(std::optional<Millis> most = std::nullopt) {
    if (most) last_ = std::max(last_, clock_.steady_now() - *most);
    if (work_ == Work::kNone) return;
    work_ = Work::kNone;
    who_.clear();
    detail_.clear();
    since_ = clock_.now();
  }
  // It had some work so long ago.
  void saw_past(Millis ago) { last_ = std::max(last_, clock_.steady_now() - ago); }
  // What an earlier control has written down.
  void restore(Steady::time_point last) { last_ = std::min(last, clock_.steady_now()); }

 private:
  void begin() {
    ++begun_;
    if (requests_++ == 0) since_ = clock_.now();
  }
  void end() {
    if (--requests_ > 0) return;
    work_ = Work::kRequest;  // so that saw_none() notices the change
    saw_none(Millis(0));
  }

  const Clock& clock_;
  Steady::time_point last_;
  WallTime since_;
  std::uint64_t begun_;
  std::size_t requests_ = 0;
  Work work_ = Work::kNone;
  std::string who_;
  std::string detail_;
};

// Why a sandbox is awake or asleep, and since when.
struct Wakefulness {
  bool awake = true;
  // Awake: request, process, cpu, egress, unknown, recent, no_idle_timeout, changing. Asleep: idle, asked,
  // deadline.
  std::string because;
  std::string detail;  // for people, may be empty
  WallTime since;
  std::optional<WallTime> sleeps_at;  // unless work comes
};

}  // namespace atl::control
