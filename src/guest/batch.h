// SPDX-License-Identifier: Apache-2.0
//
// Batches: many steps run by one request, in the order of their dependencies, results streamed per step. A
// batch with a key goes on when its client leaves, and a second request with that key gets the same answer:
// its steps are never run twice, also when the sandbox ended in between (batch_record.h). What had not begun
// then runs with the second request; what had begun and is not known to have ended is told as such.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/gate.h"
#include "async/scope.h"
#include "guest/batch_record.h"
#include "guest/batch_request.h"
#include "guest/batch_steps.h"
#include "http/client.h"
#include "http/server.h"

namespace atl::guest {

using async::Task;
using http::Exchange;

struct Guest;

// One line of a batch's record.
struct BatchLine {
  std::string text;
  bool shown = true;  // it is of the answer, too
};

// One batch, from its request until it has ended.
class Batch {
 public:
  Batch(Guest& guest, BatchRequest request, std::string digest);

  // Goes on where a record ends. Before run(), as keep_in().
  void take_up(RecordedBatch record);
  // Steps begin only when that they do is in `record`.
  void keep_in(sys::Fd record) { record_ = std::move(record); }
  // Runs all steps. Once.
  Task<> run();
  // What was said so far, one JSON object a line each.
  const std::deque<BatchLine>& lines() const { return lines_; }
  bool finished() const { return finished_; }
  // All of it is in its record.
  bool kept() const { return record_ && !record_failure_ && saved_ == lines_.size(); }
  async::Event& changed() { return changed_; }
  // Returns when no step runs any more, or at `until`, and when all that was said is in its record.
  Task<> settle(Steady::time_point until);
  // No further step begins, and those that run are broken off.
  void cancel();
  bool cancelled() const { return cancelled_; }
  const std::string& digest() const { return digest_; }  // of the request's text
  std::string key() const { return request_.key; }

 private:
  enum class State { kWaiting, kRunning, kDone, kFailed, kSkipped };
  void take_line(const std::string& line);
  void start_ready();
  Task<> run_step(std::size_t index);
  Task<Result<StepResult>> carry_out(const BatchStep& step);
  void end_step(std::size_t index, Result<StepResult> result);
  void say(std::string line);
  // Output of a step; left out, and said so once, when the batch has said too much already.
  void say_event(const BatchStep& step, std::string_view event);
  void say_cut(const BatchStep& step);
  bool failed(std::size_t index) const;
  // Returns when all lines that there are now are in the record and will outlive a crash.
  Task<Result<void>> save();

  Guest& guest_;
  const BatchRequest request_;
  const std::string digest_;
  async::Event changed_;
  async::Scope scope_;
  std::vector<State> states_;
  std::vector<bool> cut_;  // of each step: output is missing
  std::deque<BatchLine> lines_;
  std::size_t bytes_ = 0;
  std::size_t running_ = 0;
  bool stopped_ = false;  // a step failed, and that ends the batch
  bool cancelled_ = false;
  bool finished_ = false;
  sys::Fd record_;
  std::size_t saved_ = 0;  // lines that are in the record
  bool saving_ = false;
  std::optional<Error> record_failure_;
  std::set<std::string> lost_languages_;  // whose default contexts had variables of this batch, and ended
};

// Shared by the table, the task that runs it, and its readers.
using BatchPtr = std::shared_ptr<Batch>;

// The batches that run. Those with a key that have ended are in their records.
class BatchTable {
 public:
  BatchTable(async::Executor executor, std::string directory)
      : scope_(executor), gate_(executor, 1), records_(std::move(directory)) {}

  // kConflict when a batch of that key had other steps, kExhausted when too many run, kNoSpace when its key
  // cannot be kept.
  Task<Result<BatchPtr>> begin(Guest& guest, BatchRequest request, std::string digest);
  // No step begins until release(): all processes are about to be ended, and what has not begun then can
  // still run later.
  void hold() { held_ = true; }
  void release();
  // After hold(), when processes have been ended: the ends of their steps are told, and kept. Those that run
  // at `until` are not waited for.
  Task<> settle(Steady::time_point until);
  bool held() const { return held_; }
  Task<> shut_down();

 private:
  Task<Result<BatchPtr>> begin_with_key(Guest& guest, BatchRequest request, std::string digest);
  Result<BatchPtr> start(Guest& guest, BatchPtr batch);
  Task<> run(Guest& guest, BatchPtr batch);
  BatchPtr find(const std::string& key) const;

  async::Scope scope_;
  async::Gate gate_;  // of those who look for a key
  BatchRecords records_;
  std::list<BatchPtr> batches_;  // oldest first
  bool held_ = false;
};

// POST /batch.
Task<> serve_batch(Guest& guest, Exchange& exchange);

}  // namespace atl::guest
