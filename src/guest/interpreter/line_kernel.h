// SPDX-License-Identifier: Apache-2.0
//
// LineKernel: a kernel of ours for a language that has no Jupyter kernel in the distribution. It reads one
// JSON object a line from a pipe, writes events to another, and its standard output and error are the code's
// (kernels/README.md).
#pragma once

#include <deque>

#include <boost/json/object.hpp>

#include "guest/interpreter/kernel.h"
#include "guest/interpreter/lines.h"
#include "sys/fd.h"

namespace atl::guest::interpreter {

class LineKernel final : public Kernel {
 public:
  LineKernel(Host& host, KernelSpec spec, std::string name);
  ~LineKernel() override;
  Task<Result<void>> execute(Call call, Output& output) override;

 protected:
  Task<Result<void>> attach() override;
  Result<std::map<std::string, std::string>> prepare() override;
  Task<> drain() override;
  void detach() override;
  void tell_interrupt() override;

 private:
  using Pipe = async::asio::posix::stream_descriptor;
  // Reads events until the kernel ends.
  Task<> pump();
  enum class Left : std::uint8_t { kNothing, kMore, kBroken };
  // Reads what is in the pipe now: at most `limit` bytes, which it counts down, and no more than may be held.
  Left read_events(std::size_t& limit);
  void take_lines();
  void take_event(std::string_view line);
  // Ends the time in which events are held, and wakes who waits for room.
  void stop_holding();
  Task<Result<void>> send(std::string line);
  // Sends on what the code printed, up to `mark` of the process's output.
  Task<> print(Subscriber& printed, std::uint64_t mark, Output& output);
  Task<> handle(const boost::json::object& event, Output& output);
  std::string command_text(const Call& call) const;
  struct Event {
    boost::json::object object;
    std::size_t bytes;
  };

  std::string commands_path_;
  std::string events_path_;
  std::string interrupts_path_;
  std::unique_ptr<Pipe> commands_;
  std::unique_ptr<Pipe> events_;
  sys::Fd interrupts_;  // open: the kernel is told of each interrupt by the number of its call
  std::string in_;
  bool skipping_ = false;  // the rest of a line that is too long
  bool ready_ = false;     // it has said something
  // A call runs and its code is sent. What comes at other times nobody would take, so it is dropped.
  bool holding_ = false;
  std::deque<Event> held_;
  std::size_t held_bytes_ = 0;
  std::int64_t count_ = 0;
  bool done_ = false;    // of the call that runs
  Environment applied_;  // what the kernel has of environment_
  Utf8Pieces out_text_, error_text_;
};

}  // namespace atl::guest::interpreter
