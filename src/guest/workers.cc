// SPDX-License-Identifier: Apache-2.0
#include "guest/workers.h"

#include <pthread.h>

#include "guest/limits.h"

namespace atl::guest {

Workers::~Workers() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
  ended_.wait(lock, [this] { return threads_ == 0; });
}

std::size_t Workers::threads() const {
  std::lock_guard lock(mutex_);
  return threads_;
}

void Workers::submit(std::unique_ptr<Job> job) {
  {
    std::lock_guard lock(mutex_);
    bool waiting = idle_ > jobs_.size();
    if (waiting) wake_.notify_one();
    if (waiting || threads_ >= limit_ || start_thread_locked() || threads_ > 0) {
      jobs_.push_back(std::move(job));
      return;
    }
  }
  // The sandbox has used up its processes, so no thread can start. Blocking the loop is better than no
  // answer.
  job->run();
}

bool Workers::start_thread_locked() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStack);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  bool started = pthread_create(&thread, &attributes, &Workers::thread_main, this) == 0;
  pthread_attr_destroy(&attributes);
  if (started) ++threads_;
  return started;
}

void* Workers::thread_main(void* self) {
  static_cast<Workers*>(self)->work();
  return nullptr;
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!jobs_.empty() && !stopping_) {
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job->run();
      job.reset();
      lock.lock();
    }
    if (stopping_) break;
    ++idle_;
    bool woken = wake_.wait_for(lock, kThreadIdle, [this] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (!woken) break;
  }
  --threads_;
  if (threads_ == 0) ended_.notify_all();
}

}  // namespace atl::guest
