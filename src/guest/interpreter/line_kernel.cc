// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/line_kernel.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <boost/json.hpp>

#include "guest/interpreter/limits.h"
#include "guest/json.h"

namespace atl::guest::interpreter {
namespace json = boost::json;
namespace {

constexpr std::size_t kReadStep = 64 * kKiB;
constexpr std::size_t kReadTurn = kMiB;  // before other tasks of the loop have theirs
constexpr std::size_t kMaxPipe = kMiB;   // most that a pipe holds of a user without privileges

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

bool is_shell_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string shell_quote(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Shell code that gives a shell with the variables `old` those of `wanted`.
std::string shell_environment(const Environment& wanted, const Environment& old) {
  std::string code;
  for (const auto& [name, value] : wanted) {
    auto before = old.find(name);
    if (is_shell_name(name) && (before == old.end() || before->second != value))
      code += fmt::format("export {}={}\n", name, shell_quote(value));
  }
  for (const auto& [name, value] : old) {
    if (is_shell_name(name) && !wanted.contains(name)) code += fmt::format("unset -v {}\n", name);
  }
  return code;
}

// Open for both directions: the pipe then never reads as ended, and the kernel's end is seen by its process.
Result<sys::Fd> make_pipe_file(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) return Error::from_errno(errno, "make the pipe " + path);
  sys::Fd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return Error::from_errno(errno, "open the pipe " + path);
  return fd;
}

}  // namespace

LineKernel::LineKernel(Host& host, KernelSpec spec, std::string name)
    : Kernel(host, std::move(spec), std::move(name)),
      commands_path_(prefix_ + ".commands"),
      events_path_(prefix_ + ".events"),
      interrupts_path_(prefix_ + ".interrupts") {}

LineKernel::~LineKernel() {
  ::unlink(commands_path_.c_str());
  ::unlink(events_path_.c_str());
  ::unlink(interrupts_path_.c_str());
}

Result<std::map<std::string, std::string>> LineKernel::prepare() {
  TRY(sys::Fd commands, make_pipe_file(commands_path_));
  TRY(sys::Fd events, make_pipe_file(events_path_));
  commands_ = std::make_unique<Pipe>(host_.executor, commands.release());
  events_ = std::make_unique<Pipe>(host_.executor, events.release());
  if (spec_.speech == Speech::kLines) {
    TRY(interrupts_, make_pipe_file(interrupts_path_));
  }
  return std::map<std::string, std::string>{
      {"commands", commands_path_}, {"events", events_path_}, {"interrupts", interrupts_path_}};
}

Task<Result<void>> LineKernel::attach() {
  scope_.spawn("kernel events", pump());
  // The first event of a kernel says that it is ready.
  while (!ready_ && !ended_) co_await changed_.wait();
  if (!ready_) co_return make_error(Code::kUnavailable, "it ended");
  co_return success();
}

void LineKernel::detach() {
  if (commands_) commands_->cancel();
  if (events_) events_->cancel();
}

// A full pipe has interrupts in it that the kernel has not taken: one more would say nothing new.
void LineKernel::tell_interrupt() {
  if (!interrupts_) return;
  std::string line = fmt::format("{}\n", count_);
  (void)!::write(interrupts_.get(), line.data(), line.size());
}

LineKernel::Left LineKernel::read_events(std::size_t& limit) {
  std::string buffer(kReadStep, '\0');
  while (limit > 0 && held_bytes_ <= kMaxHeld) {
    ssize_t got = ::read(events_->native_handle(), buffer.data(), std::min(buffer.size(), limit));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN ? Left::kNothing : Left::kBroken;
    limit -= static_cast<std::size_t>(got);
    in_.append(buffer, 0, static_cast<std::size_t>(got));
    take_lines();
  }
  return Left::kMore;
}

Task<> LineKernel::pump() {
  while (!ended_) {
    std::size_t turn = kReadTurn;
    Left left = read_events(turn);
    if (left == Left::kBroken) break;
    if (left == Left::kNothing) {
      auto [error] = co_await events_->async_wait(Pipe::wait_read, async::use_result);
      if (error) break;
    } else if (held_bytes_ > kMaxHeld) {
      co_await changed_.wait();
    } else {
      co_await async::yield();
    }
  }
}

// All is in the pipe: what the process wrote it wrote before it ended. What is more than a pipe holds comes
// from another process, which may go on for ever.
Task<> LineKernel::drain() {
  for (std::size_t left = kMaxPipe; left > 0;) {
    while (held_bytes_ > kMaxHeld) co_await changed_.wait();
    if (read_events(left) != Left::kMore) co_return;
  }
}

void LineKernel::stop_holding() {
  holding_ = false;
  held_.clear();
  held_bytes_ = 0;
  changed_.notify_all();
}

void LineKernel::take_event(std::string_view line) {
  boost::system::error_code failure;
  json::value value;
  if (!skipping_) value = json::parse(json::string_view(line.data(), line.size()), failure);
  // An event too large to read, or none at all: the client is told that something is missing.
  if (skipping_ || failure || !value.is_object())
    value = json::object{{"error", json::object{{"name", "OutputTooLarge"},
                                                {"value", "one piece of output could not be read"}}}};
  if (value.get_object().contains("begun")) return code_begun();
  held_.push_back({std::move(value.get_object()), line.size()});
  held_bytes_ += line.size();
  process_->changed().notify_all();
}

void LineKernel::take_lines() {
  std::size_t start = 0;
  for (std::size_t end; (end = in_.find('\n', start)) != std::string::npos; start = end + 1) {
    std::string_view line = std::string_view(in_).substr(start, end - start);
    if (holding_) take_event(line);
    skipping_ = false;
    if (!std::exchange(ready_, true)) changed_.notify_all();
  }
  in_.erase(0, start);
  if (in_.size() > kMaxMessage) {
    skipping_ = true;
    in_.clear();
  }
}

Task<Result<void>> LineKernel::send(std::string line) {
  std::string_view rest = line;
  while (!rest.empty() && !ended_) {
    ssize_t put = ::write(commands_->native_handle(), rest.data(), rest.size());
    if (put > 0) {
      rest.remove_prefix(static_cast<std::size_t>(put));
    } else if (put < 0 && errno == EAGAIN) {
      co_await commands_->async_wait(Pipe::wait_write, async::use_result);
    } else if (errno != EINTR) {
      co_return Error::from_errno(errno, "write to the kernel");
    }
  }
  co_return success();
}

Task<> LineKernel::print(Subscriber& printed, std::uint64_t mark, Output& output) {
  while (printed.next() < mark) {
    Ring::Piece piece = printed.peek();
    if (piece.data.empty()) break;
    bool errors = piece.channel == Channel::kStderr;
    std::string text = errors ? error_text_.take(piece.data) : out_text_.take(piece.data);
    std::string_view stream = errors ? "stderr" : "stdout";
    std::uint64_t after = piece.offset + piece.data.size();
    if (!text.empty()) co_await output.put(output_line(stream, text));
    // Only now: what is not taken holds the code back.
    printed.taken(static_cast<std::size_t>(after - printed.next()));
  }
}

Task<> LineKernel::handle(const json::object& event, Output& output) {
  if (const json::value* result = event.if_contains("result"); result != nullptr && result->is_object()) {
    const json::value* main = event.if_contains("main");
    bool is_main = main != nullptr && main->is_bool() && main->get_bool();
    co_await output.put(result_line(result->get_object(), is_main));
  }
  if (const json::value* error = event.if_contains("error"); error != nullptr && error->is_object()) {
    const json::object& what = error->get_object();
    co_await output.put(
        error_line(text_of(what, "name"), text_of(what, "value"), text_of(what, "traceback")));
  }
  done_ = done_ || event.contains("done");
}

std::string LineKernel::command_text(const Call& call) const {
  if (spec_.speech == Speech::kFields) {
    // For a shell, which cannot read JSON: code before, the code, code after, each ended by a NUL byte.
    std::string before = shell_environment(environment_, applied_) + shell_environment(call.environment, {});
    if (value_of(environment_, kSandboxVariable) != value_of(applied_, kSandboxVariable))
      before += "RANDOM=$SRANDOM\n";
    std::string after;
    for (const auto& [name, value] : call.environment) {
      auto global = environment_.find(name);
      Environment back;
      if (global != environment_.end()) back[name] = global->second;
      after += shell_environment(back, Environment{{name, value}});
    }
    return before + '\0' + call.code + '\0' + after + '\0';
  }
  ObjectWriter command;
  command.text("code", call.code).text_map("globals", environment_).text_map("call", call.environment);
  return std::move(command).finish() + "\n";
}

Task<Result<void>> LineKernel::execute(Call call, Output& output) {
  // Not run up to there either: that would be other code than what was sent.
  if (spec_.speech == Speech::kFields && call.code.find('\0') != std::string::npos) {
    co_await output.put(error_line("SyntaxError", "the code has a NUL byte, which a shell cannot read", ""));
    co_return success();
  }
  std::string command = command_text(call);
  Subscriber printed(process_, process_->ring().end());
  applied_ = environment_;
  done_ = false;
  out_text_ = error_text_ = Utf8Pieces();
  co_await output.put(count_line(++count_));
  call_sent();
  auto sent = co_await send(std::move(command));
  // A kernel says nothing of a call before it has read all of it.
  holding_ = true;
  // One that is told which call an interrupt is for may be told at once.
  if (interrupts_) code_begun();
  while (sent.ok()) {
    co_await print(printed, process_->ring().end(), output);
    if (!held_.empty()) {
      // What was printed before the event goes out before it.
      std::uint64_t mark = process_->written();
      while (printed.next() < mark && !process_->outcome()) {
        co_await print(printed, mark, output);
        if (printed.next() < mark) co_await process_->changed().wait();
      }
      Event next = std::move(held_.front());
      held_.pop_front();
      held_bytes_ -= next.bytes;
      co_await handle(next.object, output);
      changed_.notify_all();
      if (done_) break;
      continue;
    }
    if (ended_) break;
    co_await process_->changed().wait();
  }
  call_over();
  stop_holding();
  std::string rest = out_text_.rest(), error_rest = error_text_.rest();
  if (!rest.empty()) co_await output.put(output_line("stdout", rest));
  if (!error_rest.empty()) co_await output.put(output_line("stderr", error_rest));
  if (done_) co_return success();
  if (!ended_) kill();
  while (!ended_) co_await changed_.wait();
  co_return make_error(Code::kUnavailable, "the {} kernel has ended: {}", spec_.language, end_text());
}

}  // namespace atl::guest::interpreter
