// SPDX-License-Identifier: Apache-2.0
//
// POST /freeze: control is about to bring the sandbox to rest. What streams to clients ends with a word that
// says so, clocks of requests stand still until the next /init, and what was written goes to the disk where
// that is wanted.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <string>

#include "guest/rpc.h"

namespace atl::guest {

struct Guest;

// The streams that must end before the sandbox rests.
class Rest {
 public:
  // Lives in the task that serves a stream.
  class Stay {
   public:
    // `wake`: makes the task look at due().
    Stay(Rest& rest, std::function<void()> wake);
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    bool due() const { return due_; }

   private:
    friend class Rest;
    Rest& rest_;
    std::function<void()> wake_;
    bool due_ = false;
    std::list<Stay*>::iterator place_;
  };

  void end_streams();

 private:
  std::list<Stay*> streams_;
};

// What ends a stream at a pause.
Error pausing_error(std::string_view hint);

// Puts the environment of a create on the disk, for later boots, in place of what is there.
void keep_environment(const std::string& path, const std::map<std::string, std::string>& environment);
// What was put there; empty when there is nothing.
std::map<std::string, std::string> kept_environment(const std::string& path);

// 204 when all is written.
Task<> serve_freeze(Guest& guest, Exchange& exchange);

}  // namespace atl::guest
