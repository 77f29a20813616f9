// SPDX-License-Identifier: Apache-2.0
#include "guest/batch.h"

#include <algorithm>

#include "base/bytes.h"
#include "guest/batch_steps.h"
#include "guest/json.h"
#include "guest/limits.h"
#include "guest/rpc.h"
#include "guest/state.h"

namespace atl::guest {
namespace {

std::string with_step(const BatchStep& step, std::string_view member, std::string_view json) {
  ObjectWriter line;
  line.text("step", step.id).raw(member, json);
  return std::move(line).finish() + "\n";
}

std::string error_json(const Error& error) {
  ObjectWriter out;
  out.text("code", error.word()).text("message", error.message());
  return std::move(out).finish();
}

std::string done_json(const Result<StepResult>& result) {
  ObjectWriter out;
  out.boolean("ok", result.ok() && result->ok);
  if (!result.ok())
    out.raw("error", error_json(result.error()));
  else if (!result->json.empty())
    out.raw("result", result->json);
  return std::move(out).finish();
}

}  // namespace

Batch::Batch(Guest& guest, BatchRequest request, std::string digest)
    : guest_(guest),
      request_(std::move(request)),
      digest_(std::move(digest)),
      changed_(guest.executor),
      scope_(guest.executor),
      states_(request_.steps.size(), State::kWaiting),
      cut_(request_.steps.size(), false) {}

void Batch::say(std::string line) {
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  changed_.notify_all();
}

void Batch::say_event(const BatchStep& step, std::string_view event) {
  auto index = static_cast<std::size_t>(&step - request_.steps.data());
  // Nothing after a hole: a reader can tell where the output ends.
  if (cut_[index]) return;
  if (bytes_ + event.size() <= kMaxBatchOutput) return say(with_step(step, "event", event));
  cut_[index] = true;
  say(with_step(step, "cut", "true"));
}

bool Batch::failed(std::size_t index) const {
  return states_[index] == State::kFailed || states_[index] == State::kSkipped;
}

void Batch::start_ready() {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] != State::kWaiting || running_ >= kMaxBatchParallel) continue;
    const BatchStep& step = request_.steps[i];
    auto lacks = std::find_if(step.after.begin(), step.after.end(), [&](std::size_t j) { return failed(j); });
    bool waits = std::any_of(step.after.begin(), step.after.end(), [&](std::size_t j) {
      return states_[j] == State::kWaiting || states_[j] == State::kRunning;
    });
    if (stopped_ || cancelled_ || lacks != step.after.end()) {
      states_[i] = State::kSkipped;
      std::string why = lacks != step.after.end() ? "step " + request_.steps[*lacks].id + " failed"
                        : cancelled_              ? std::string("the batch was cancelled")
                                                  : std::string("an earlier step failed");
      say(with_step(step, "skipped", json_text(why)));
    } else if (!waits) {
      states_[i] = State::kRunning;
      ++running_;
      scope_.spawn("batch step", run_step(i));
    }
  }
}

Task<> Batch::run_step(std::size_t index) {
  const BatchStep& step = request_.steps[index];
  StepContext context{guest_, request_.user, changed_, cancelled_,
                      [this, &step](std::string_view event) { say_event(step, event); }};
  auto result = co_await guest::run_step(context, step);
  bool good = (result.ok() && result->ok) || step.ignore_error;
  say(with_step(step, "done", done_json(result)));
  states_[index] = good ? State::kDone : State::kFailed;
  if (!good && request_.stop_on_error) stopped_ = true;
  --running_;
  changed_.notify_all();
}

Task<> Batch::run() {
  for (;;) {
    start_ready();
    bool open = std::any_of(states_.begin(), states_.end(),
                            [](State state) { return state == State::kWaiting || state == State::kRunning; });
    if (!open) break;
    co_await changed_.wait();
  }
  co_await scope_.join();
  bool good = std::all_of(states_.begin(), states_.end(), [](State state) { return state == State::kDone; });
  ObjectWriter end, line;
  end.boolean("ok", good);
  line.raw("end", std::move(end).finish());
  finished_ = true;
  say(std::move(line).finish() + "\n");
}

void Batch::cancel() {
  cancelled_ = true;
  changed_.notify_all();
}

Result<BatchPtr> BatchTable::begin(Guest& guest, BatchRequest request, std::string digest) {
  if (!request.key.empty()) {
    auto found = std::find_if(batches_.begin(), batches_.end(),
                              [&](const BatchPtr& batch) { return batch->key() == request.key; });
    if (found != batches_.end() && (*found)->digest() == digest) return *found;
    if (found != batches_.end())
      return make_error(Code::kConflict, "the batch with the key '{}' had other steps", request.key);
  }
  make_room();
  if (batches_.size() >= kMaxBatches)
    return make_error(Code::kExhausted, "{} batches run already", batches_.size());
  auto batch = std::make_shared<Batch>(guest, std::move(request), std::move(digest));
  batches_.push_back(batch);
  scope_.spawn("batch", run(batch));
  return batch;
}

Task<> BatchTable::run(BatchPtr batch) {
  co_await batch->run();
  if (batch->key().empty()) batches_.remove(batch);
  make_room();
}

// The oldest answers go when there are too many, or too large ones.
void BatchTable::make_room() {
  std::size_t bytes = 0;
  for (const BatchPtr& batch : batches_) bytes += batch->bytes();
  while (bytes > kBatchRetainedBytes || batches_.size() >= kMaxBatches) {
    auto old =
        std::find_if(batches_.begin(), batches_.end(), [](const BatchPtr& b) { return b->finished(); });
    if (old == batches_.end()) return;
    bytes -= (*old)->bytes();
    batches_.erase(old);
  }
}

Task<> BatchTable::shut_down() {
  for (const BatchPtr& batch : batches_) batch->cancel();
  co_await scope_.join();
  batches_.clear();
}

namespace {

// Sends what the batch says until it has ended. False when the client has gone.
Task<bool> follow(Exchange& exchange, Batch& batch, const ClientWatch& watch) {
  http::ResponseHead head;
  head.headers.add("content-type", "application/x-ndjson");
  auto sent = co_await exchange.send_head(std::move(head));
  for (std::size_t next = 0; sent.ok() && !watch.gone();) {
    std::string block;
    while (next < batch.lines().size() && block.size() < kMaxMessage) block += batch.lines()[next++];
    if (!block.empty()) {
      sent = co_await exchange.write(block);
      continue;
    }
    if (batch.finished()) break;
    co_await batch.changed().wait();
  }
  co_return sent.ok() && !watch.gone();
}

}  // namespace

Task<> serve_batch(Guest& guest, Exchange& exchange) {
  auto text = co_await exchange.read_all(kMaxBatchRequest);
  Result<BatchRequest> request = text.ok() ? parse_batch(*text) : Result<BatchRequest>(text.error());
  Result<BatchPtr> begun = make_error(Code::kInternal, "not begun");
  if (request.ok())
    begun = guest.batches.begin(guest, std::move(*request), sha256(*text));
  else
    begun = request.error();
  if (!begun.ok()) {
    co_await respond_error(exchange, begun.error());
    co_return;
  }
  BatchPtr batch = *begun;
  exchange.set_idle_limit(Steady::duration::zero());
  ClientWatch watch(guest.executor, exchange, [batch] { batch->changed().notify_all(); });
  bool all = co_await follow(exchange, *batch, watch);
  co_await watch.stop();
  if (all)
    co_await finish(exchange);
  else if (batch->key().empty())
    batch->cancel();
}

}  // namespace atl::guest
