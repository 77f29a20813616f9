// SPDX-License-Identifier: Apache-2.0
#include "guest/interpreter/jupyter_kernel.h"

#include <unistd.h>

#include <boost/json.hpp>

#include "base/random.h"
#include "base/text.h"
#include "guest/interpreter/limits.h"
#include "guest/interpreter/lines.h"
#include "guest/json.h"
#include "net/tcp.h"
#include "sys/files.h"

namespace atl::guest::interpreter {
namespace json = boost::json;
namespace {

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains({key.data(), key.size()});
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::string joined_traceback(const json::object& content) {
  const json::value* lines = content.if_contains("traceback");
  std::string out;
  if (lines == nullptr || !lines->is_array()) return out;
  for (const json::value& line : lines->get_array()) {
    if (!line.is_string()) continue;
    if (!out.empty()) out += '\n';
    out += std::string(line.get_string());
  }
  return out;
}

std::size_t size_of(const zmtp::Message& message) {
  std::size_t bytes = 0;
  for (const std::string& part : message.parts) bytes += part.size();
  return bytes;
}

// Our Python kernel takes variables from the request itself (kernels/python_kernel.py).
std::string metadata_of(const Environment& globals, const Environment& call) {
  ObjectWriter environment, out;
  environment.text_map("globals", globals).text_map("call", call);
  out.raw("atoll", std::move(environment).finish());
  return std::move(out).finish();
}

std::string r_quote(const std::string& text) { return json_quote(text); }

struct Drop final : Output {
  Task<> put(std::string) override { co_return; }
};

}  // namespace

std::string environment_code(std::string_view language, const Environment& set,
                             const std::vector<std::string>& remove) {
  if (language != "r") return {};
  std::string code;
  for (const auto& [name, value] : set)
    code += fmt::format("do.call(Sys.setenv, setNames(list({}), {}))\n", r_quote(value), r_quote(name));
  for (const std::string& name : remove) code += fmt::format("Sys.unsetenv({})\n", r_quote(name));
  return code;
}

JupyterKernel::JupyterKernel(Host& host, KernelSpec spec, std::string name)
    : Kernel(host, std::move(spec), std::move(name)), session_(random_uuid()) {}

JupyterKernel::~JupyterKernel() {
  for (int socket = jupyter::kShell; socket <= jupyter::kHeartbeat; ++socket)
    ::unlink(fmt::format("{}-{}", prefix_, socket).c_str());
  ::unlink(fmt::format("{}-{}-children", prefix_, jupyter::kIopub).c_str());  // atoll_kernel.py
  ::unlink((prefix_ + ".json").c_str());
}

Result<std::map<std::string, std::string>> JupyterKernel::prepare() {
  std::string path = prefix_ + ".json";
  TRY_VOID(sys::replace_file(path, jupyter::connection_file(prefix_), 0600));
  return std::map<std::string, std::string>{{"connection_file", path}};
}

// The kernel makes its sockets when it likes, so they are tried until they are there.
Task<Result<std::unique_ptr<zmtp::Socket>>> JupyterKernel::connect(int socket, zmtp::Type type) {
  std::string path = fmt::format("{}-{}", prefix_, socket);
  while (!ended_) {
    auto stream = co_await net::connect_unix(path, kKernelStart);
    if (stream.ok()) co_return co_await zmtp::Socket::open(std::move(*stream), type);
    co_await async::sleep_for(kConnectRetry);
  }
  co_return make_error(Code::kUnavailable, "it ended");
}

Task<Result<void>> JupyterKernel::attach() {
  CO_TRY(iopub_, co_await connect(jupyter::kIopub, zmtp::Type::kSub));
  CO_TRY(shell_, co_await connect(jupyter::kShell, zmtp::Type::kDealer));
  scope_.spawn("kernel output", pump(*iopub_, Role::kOutput));
  scope_.spawn("kernel answers", pump(*shell_, Role::kAnswers));
  // A publisher drops what it says before it knows its subscribers, so it is asked until it is heard.
  Drop nowhere;
  for (Steady::duration wait = kFirstQuestion; !closed_; wait *= 2) {
    jupyter::Request request = jupyter::make_request(session_, "kernel_info_request", "{}", "{}");
    waiting_ = Waiting{request.id, true, false, false, false};
    CO_TRY_VOID(co_await send(request));
    auto until = Steady::now() + wait;
    if (co_await finish_request(nowhere, until)) co_return success();
  }
  co_return make_error(Code::kUnavailable, "it closed its sockets");
}

// Handles what comes for the request until the kernel is free again. False when it is not until `until`, or
// never will be.
Task<bool> JupyterKernel::finish_request(Output& output, Steady::time_point until) {
  while (!(waiting_->idle && waiting_->replied)) {
    if (held_.empty()) {
      if (closed_) break;
      if (!co_await changed_.wait_until(until) && held_.empty()) break;
      continue;
    }
    Held next = std::move(held_.front());
    held_.pop_front();
    co_await handle(std::move(next.heard), output);
    held_bytes_ -= next.bytes;
    changed_.notify_all();
  }
  bool complete = waiting_->idle && waiting_->replied;
  waiting_.reset();
  held_.clear();
  held_bytes_ = 0;
  changed_.notify_all();
  co_return complete;
}

void JupyterKernel::detach() {
  closed_ = true;
  if (shell_) shell_->close();
  if (iopub_) iopub_->close();
}

// The publisher's socket ends behind the last thing that it said, unless a child of the kernel holds it open.
Task<> JupyterKernel::drain() {
  auto until = Steady::now() + kLastWords;
  while (iopub_ && !closed_) {
    if (held_bytes_ > kMaxHeld)
      co_await changed_.wait();
    else if (!co_await changed_.wait_until(until))
      break;
  }
}

Task<> JupyterKernel::pump(zmtp::Socket& socket, Role role) {
  for (;;) {
    auto message = co_await socket.receive();
    if (!message.ok()) break;
    std::size_t bytes = size_of(*message);
    auto heard = jupyter::parse_heard(std::move(*message));
    // What no request is waiting for: output of threads that outlived their cell, restarts of others.
    if (!heard.ok() || !waiting_ || heard->parent != waiting_->request) continue;
    if (heard->type == "execute_input" && !waiting_->silent) code_begun();
    take(std::move(*heard), bytes);
    while (held_bytes_ > kMaxHeld && !closed_) co_await changed_.wait();
  }
  if (role == Role::kAnswers) co_return;
  closed_ = true;
  changed_.notify_all();
}

void JupyterKernel::take(jupyter::Heard heard, std::size_t bytes) {
  held_bytes_ += bytes;
  held_.push_back({std::move(heard), bytes});
  changed_.notify_all();
}

Task<Result<void>> JupyterKernel::send(const jupyter::Request& request) {
  std::vector<std::string> parts = request.parts;
  co_return co_await shell_->send(std::move(parts));
}

Task<> JupyterKernel::handle(jupyter::Heard heard, Output& output) {
  const json::object& content = heard.content;
  if (heard.type == "status") {
    waiting_->idle = waiting_->idle || text_of(content, "execution_state") == "idle";
  } else if (heard.type.ends_with("_reply")) {
    waiting_->replied = true;
    bool aborted = text_of(content, "status") == "abort" || text_of(content, "status") == "aborted";
    if (aborted && !waiting_->told)
      co_await output.put(error_line("Aborted", "the kernel did not run this code", ""));
  } else if (waiting_->silent) {
    co_return;
  } else if (heard.cut) {
    co_await output.put(error_line(
        "OutputTooLarge",
        fmt::format("one piece of output was larger than {} bytes, or nested too deep", kMaxMessage), ""));
  } else if (heard.type == "stream") {
    std::string name = text_of(content, "name") == "stderr" ? "stderr" : "stdout";
    co_await output.put(output_line(name, text_of(content, "text")));
  } else if (heard.type == "execute_result" || heard.type == "display_data") {
    const json::value* data = content.if_contains("data");
    if (data == nullptr || !data->is_object()) co_return;
    std::string line = result_line(data->get_object(), heard.type == "execute_result");
    co_await output.put(std::move(line));
  } else if (heard.type == "error") {
    waiting_->told = true;
    co_await output.put(
        error_line(text_of(content, "ename"), text_of(content, "evalue"), joined_traceback(content)));
  } else if (heard.type == "execute_input") {
    const json::value* count = content.if_contains("execution_count");
    if (count != nullptr && count->is_int64()) co_await output.put(count_line(count->get_int64()));
  }
}

Task<Result<void>> JupyterKernel::run(std::string code, std::string metadata, bool silent, Output& output) {
  std::string content = jupyter::execute_content(code, silent);
  jupyter::Request request = jupyter::make_request(session_, "execute_request", content, metadata);
  waiting_ = Waiting{request.id, silent, false, false, false};
  if (!silent) call_sent();
  auto sent = co_await send(request);
  bool finished = sent.ok() && co_await finish_request(output, Steady::time_point::max());
  call_over();
  if (finished) co_return success();
  // The sockets end a moment before the process does.
  if (!ended_) kill();
  while (!ended_) co_await changed_.wait();
  co_return make_error(Code::kUnavailable, "the {} kernel has ended: {}", spec_.language, end_text());
}

Task<Result<void>> JupyterKernel::execute(Call call, Output& output) {
  if (spec_.takes_environment) {
    std::string metadata = metadata_of(environment_, call.environment);
    co_return co_await run(std::move(call.code), std::move(metadata), false, output);
  }
  std::vector<std::string> remove;
  for (const auto& [name, value] : applied_) {
    if (!environment_.contains(name) && !call.environment.contains(name)) remove.push_back(name);
  }
  Environment wanted = environment_;
  for (const auto& [name, value] : call.environment) wanted[name] = value;
  if (wanted != applied_) {
    bool copied = value_of(wanted, kSandboxVariable) != value_of(applied_, kSandboxVariable);
    std::string code = environment_code(spec_.language, wanted, remove);
    // A copy of a sandbox must not go on with the random numbers of the other one.
    if (copied && spec_.language == "r") code += "suppressWarnings(rm(.Random.seed, envir = globalenv()))\n";
    applied_ = std::move(wanted);
    if (!code.empty()) CO_TRY_VOID(co_await run(std::move(code), "{}", true, output));
  }
  co_return co_await run(std::move(call.code), "{}", false, output);
}

}  // namespace atl::guest::interpreter
