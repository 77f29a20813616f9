// SPDX-License-Identifier: Apache-2.0
#include "guest/batch.h"

#include <algorithm>

#include <boost/json.hpp>

#include "base/bytes.h"
#include "base/log.h"
#include "base/text.h"
#include "guest/json.h"
#include "guest/labels.h"
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
  out.text("code", error.word()).text("message", error.message().substr(0, kMaxBatchError));
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

// Such a step changes nothing, and may run as often as it is asked for.
bool only_looks(const BatchStep& step) {
  return step.kind == StepKind::kRead || step.kind == StepKind::kList;
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
  lines_.push_back({std::move(line)});
  changed_.notify_all();
}

void Batch::say_cut(const BatchStep& step) {
  auto index = static_cast<std::size_t>(&step - request_.steps.data());
  if (cut_[index]) return;
  cut_[index] = true;
  say(with_step(step, "cut", "true"));
}

void Batch::say_event(const BatchStep& step, std::string_view event) {
  auto index = static_cast<std::size_t>(&step - request_.steps.data());
  // Nothing after a hole: a reader can tell where the output ends.
  if (cut_[index]) return;
  if (bytes_ + event.size() > kMaxBatchOutput) return say_cut(step);
  say(with_step(step, "event", event));
}

void Batch::take_line(const std::string& line) {
  boost::system::error_code failure;
  boost::json::parse_options options;
  options.max_depth = kMaxRecordDepth;
  boost::json::value value = boost::json::parse(line, failure, {}, options);
  if (failure || !value.is_object()) return;
  Fields fields(value.get_object());
  std::string id = fields.text("step");
  auto step = std::find_if(request_.steps.begin(), request_.steps.end(),
                           [&](const BatchStep& each) { return each.id == id; });
  if (fields.has("end")) finished_ = true;
  if (step == request_.steps.end()) return;
  auto index = static_cast<std::size_t>(step - request_.steps.begin());
  if (fields.has("cut")) cut_[index] = true;
  if (fields.has("skipped")) states_[index] = State::kSkipped;
  auto done = fields.object("done");
  if (!done) return;
  bool good = done->boolean("ok") || step->ignore_error;
  states_[index] = good ? State::kDone : State::kFailed;
  if (!good && request_.stop_on_error) stopped_ = true;
}

void Batch::take_up(RecordedBatch record) {
  for (std::string& line : record.lines) {
    take_line(line);
    say(std::move(line));
  }
  saved_ = lines_.size();
  if (finished_) return;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const BatchStep& step = request_.steps[i];
    bool begun = record.damaged || record.begun.contains(step.id);
    if (begun && step.kind == StepKind::kCode && step.context.empty()) lost_languages_.insert(step.language);
    if (states_[i] != State::kWaiting || !begun || only_looks(step)) continue;
    Error unknown =
        make_error(Code::kUnavailable,
                   "the sandbox ended after this step had begun: whether it was done is not known, "
                   "and it is not run again; look, and send what is missing under another key");
    ++running_;
    end_step(i, std::move(unknown).with_word("outcome_unknown"));
  }
}

bool Batch::failed(std::size_t index) const {
  return states_[index] == State::kFailed || states_[index] == State::kSkipped;
}

void Batch::start_ready() {
  if (guest_.batches.held()) return;
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
      // It goes to the record with whatever was said before, in one write.
      if (record_ && !only_looks(step)) lines_.push_back({begun_line(step.id), false});
      scope_.spawn("batch step", run_step(i));
    }
  }
}

Task<Result<StepResult>> Batch::carry_out(const BatchStep& step) {
  if (step.kind == StepKind::kCode && step.context.empty() && lost_languages_.contains(step.language)) {
    Error lost = make_error(Code::kUnavailable,
                            "the sandbox ended after earlier code of this batch: its variables are lost, and "
                            "this step was not run without them");
    co_return std::move(lost).with_word("context_lost");
  }
  if (record_ && !only_looks(step)) {
    auto saved = co_await save();
    if (!saved.ok()) co_return std::move(saved).error().context("not run, because its key cannot be kept");
  }
  StepContext context{guest_,         request_.user,
                      request_.right, changed_,
                      cancelled_,     [this, &step](std::string_view event) { say_event(step, event); }};
  co_return co_await guest::run_step(context, step);
}

void Batch::end_step(std::size_t index, Result<StepResult> result) {
  const BatchStep& step = request_.steps[index];
  bool good = (result.ok() && result->ok) || step.ignore_error;
  if (result.ok() && bytes_ + result->json.size() > kMaxBatchOutput) {
    say_cut(step);
    result->json.clear();
  }
  say(with_step(step, "done", done_json(result)));
  states_[index] = good ? State::kDone : State::kFailed;
  if (!good && request_.stop_on_error) stopped_ = true;
  --running_;
  changed_.notify_all();
}

Task<> Batch::run_step(std::size_t index) {
  auto result = co_await carry_out(request_.steps[index]);
  end_step(index, std::move(result));
}

Task<Result<void>> Batch::save() {
  std::size_t wanted = lines_.size();
  while (saved_ < wanted && !record_failure_) {
    if (saving_) {
      co_await changed_.wait();
      continue;
    }
    saving_ = true;
    std::string block;
    std::size_t next = saved_;
    for (; next < lines_.size(); ++next) block += lines_[next].text;
    auto work = [fd = record_.get(), block = std::move(block)] { return append_record(fd, block); };
    auto done = co_await guest_.file_workers.run(std::move(work));
    saving_ = false;
    if (done.ok())
      saved_ = next;
    else
      record_failure_ = done.error();
    changed_.notify_all();
  }
  if (record_failure_) co_return *record_failure_;
  co_return success();
}

Task<> Batch::run() {
  if (finished_) co_return;
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
  say(std::move(line).finish() + "\n");
  if (record_) {
    auto saved = co_await save();
    if (!saved.ok()) log::warn("a batch is not kept", {{"why", saved.error().message()}});
  }
  finished_ = true;
  changed_.notify_all();
}

Task<> Batch::settle(Steady::time_point until) {
  auto rests = [this] {
    bool waits = std::any_of(states_.begin(), states_.end(), [](State s) { return s == State::kWaiting; });
    return running_ == 0 && (waits || finished_);
  };
  while (!rests() && Steady::now() < until) co_await changed_.wait_until(until);
  if (!record_ || finished_) co_return;
  // The ends of steps go to the record with the next beginning, and none comes.
  auto saved = co_await save();
  if (!saved.ok()) log::warn("ends of steps are not kept", {{"why", saved.error().message()}});
}

void Batch::cancel() {
  cancelled_ = true;
  changed_.notify_all();
}

BatchPtr BatchTable::find(const std::string& key) const {
  auto found = std::find_if(batches_.begin(), batches_.end(),
                            [&](const BatchPtr& batch) { return batch->key() == key; });
  return found != batches_.end() ? *found : nullptr;
}

Result<BatchPtr> BatchTable::start(Guest& guest, BatchPtr batch) {
  batches_.push_back(batch);
  scope_.spawn("batch", run(guest, batch));
  return batch;
}

Task<Result<BatchPtr>> BatchTable::begin(Guest& guest, BatchRequest request, std::string digest) {
  if (!request.key.empty()) co_return co_await begin_with_key(guest, std::move(request), std::move(digest));
  if (batches_.size() >= kMaxBatches)
    co_return make_error(Code::kExhausted, "{} batches run already", batches_.size());
  co_return start(guest, std::make_shared<Batch>(guest, std::move(request), std::move(digest)));
}

Task<Result<BatchPtr>> BatchTable::begin_with_key(Guest& guest, BatchRequest request, std::string digest) {
  auto turn = co_await gate_.enter();
  std::string key = request.key;
  Error conflict = make_error(Code::kConflict, "the batch with the key '{}' had other steps", printable(key));
  BatchPtr found = find(key);
  if (found && found->digest() != digest) co_return conflict;
  if (found) co_return found;
  if (guest.options.batch_directory.empty())
    co_return make_error(Code::kUnsupported, "outside of a sandbox there is no place for keys of batches");
  auto load = [this, key] { return records_.load(key); };
  auto recorded = co_await guest.file_workers.run(std::move(load));
  bool known = recorded && !recorded->digest.empty();
  if (known && recorded->digest != digest) co_return conflict;
  if (batches_.size() >= kMaxBatches)
    co_return make_error(Code::kExhausted, "{} batches run already", batches_.size());
  auto batch = std::make_shared<Batch>(guest, std::move(request), digest);
  if (recorded) {
    bool damaged = recorded->damaged;
    batch->take_up(std::move(*recorded));
    if (batch->finished()) co_return batch;
    // Of a damaged one nothing is run, so there is nothing to keep.
    if (damaged) co_return start(guest, std::move(batch));
  }
  std::set<std::string> running;
  for (const BatchPtr& each : batches_) running.insert(each->key());
  bool again = recorded.has_value();
  auto open = [this, key, digest, running, again] {
    return again ? records_.reopen(key) : records_.create(key, digest, running);
  };
  CO_TRY(sys::Fd record, co_await guest.file_workers.run(std::move(open)));
  batch->keep_in(std::move(record));
  co_return start(guest, std::move(batch));
}

Task<> BatchTable::run(Guest& guest, BatchPtr batch) {
  co_await batch->run();
  if (batch->kept()) {
    // Who asks for it now waits until it has its name.
    auto turn = co_await gate_.enter();
    auto end = [this, key = batch->key()] { return records_.end(key); };
    auto ended = co_await guest.file_workers.run(std::move(end));
    if (!ended.ok()) log::warn("the record of a batch has not ended", {{"why", ended.error().message()}});
  }
  batches_.remove(batch);
}

void BatchTable::release() {
  held_ = false;
  for (const BatchPtr& batch : batches_) batch->changed().notify_all();
}

Task<> BatchTable::settle(Steady::time_point until) {
  std::vector<BatchPtr> all(batches_.begin(), batches_.end());
  for (const BatchPtr& batch : all) co_await batch->settle(until);
}

Task<> BatchTable::shut_down() {
  release();
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
    for (; next < batch.lines().size() && block.size() < kMaxMessage; ++next)
      if (batch.lines()[next].shown) block += batch.lines()[next].text;
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
  if (request.ok()) request->right = label_right(exchange.request());
  if (request.ok())
    begun = co_await guest.batches.begin(guest, std::move(*request), hex_encode(sha256(*text)));
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
