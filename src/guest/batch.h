// SPDX-License-Identifier: Apache-2.0
//
// Batches: many steps run by one request, in the order of their dependencies, results streamed per step. A
// batch with a key goes on when its client leaves, and a second request with that key gets the same answer:
// its steps are never run twice.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "async/event.h"
#include "async/scope.h"
#include "guest/batch_request.h"
#include "http/client.h"
#include "http/server.h"

namespace atl::guest {

using async::Task;
using http::Exchange;

struct Guest;

// One batch, from its request until it is forgotten.
class Batch {
 public:
  Batch(Guest& guest, BatchRequest request, std::string digest);

  // Runs all steps. Once.
  Task<> run();
  // What was said so far, one JSON object a line each.
  const std::deque<std::string>& lines() const { return lines_; }
  bool finished() const { return finished_; }
  async::Event& changed() { return changed_; }
  // No further step begins, and those that run are broken off.
  void cancel();
  bool cancelled() const { return cancelled_; }
  const std::string& digest() const { return digest_; }  // of the request's text
  std::size_t bytes() const { return bytes_; }
  std::string key() const { return request_.key; }

 private:
  enum class State { kWaiting, kRunning, kDone, kFailed, kSkipped };
  void start_ready();
  Task<> run_step(std::size_t index);
  void say(std::string line);
  // Output of a step; left out, and said so once, when the batch has said too much already.
  void say_event(const BatchStep& step, std::string_view event);
  bool failed(std::size_t index) const;

  Guest& guest_;
  const BatchRequest request_;
  const std::string digest_;
  async::Event changed_;
  async::Scope scope_;
  std::vector<State> states_;
  std::vector<bool> cut_;  // of each step: output is missing
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  std::size_t running_ = 0;
  bool stopped_ = false;  // a step failed, and that ends the batch
  bool cancelled_ = false;
  bool finished_ = false;
};

// Shared by the table, the task that runs it, and its readers.
using BatchPtr = std::shared_ptr<Batch>;

// The batches that run, and those with a key that ended not long ago.
class BatchTable {
 public:
  explicit BatchTable(async::Executor executor) : scope_(executor) {}

  // kConflict when a batch of that key had other steps, kExhausted when too many run.
  Result<BatchPtr> begin(Guest& guest, BatchRequest request, std::string digest);
  Task<> shut_down();

 private:
  Task<> run(BatchPtr batch);
  void make_room();

  async::Scope scope_;
  std::list<BatchPtr> batches_;  // oldest first
};

// POST /batch.
Task<> serve_batch(Guest& guest, Exchange& exchange);

}  // namespace atl::guest
