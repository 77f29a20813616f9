// SPDX-License-Identifier: Apache-2.0
//
// GuestClient: processes and files of one sandbox. Everything that it hands out came from the sandbox, so it
// is hostile: names and messages are not printed without printable(), paths pass safe_relative_path().
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/api_client.h"
#include "http/connect_rpc.h"

namespace atl::cli {

struct TerminalSize {
  unsigned columns = 80;
  unsigned rows = 24;
  bool operator==(const TerminalSize&) const = default;
};

struct ProcessSpec {
  std::string command;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::string directory;  // empty: the user's home or the template's directory
  bool open_stdin = false;
  std::optional<TerminalSize> terminal;  // a terminal instead of three pipes
  Millis limit{0};                       // the guest daemon ends the process after it; 0 = none
};

// How a process ended, in the guest daemon's words.
struct ProcessEnd {
  enum class How { kExited, kSignalled, kTimedOut, kOutOfMemory, kKilled, kLost };
  How how = How::kExited;
  int exit_code = 0;
  int signal = 0;
  std::string message;  // for people, may be empty
};
std::string_view how_name(ProcessEnd::How how);
// The status that the shell of the caller sees: the command's own, 124, or 128 + signal.
int exit_status(const ProcessEnd& end);

struct ProcessEvent {
  enum class Kind { kStarted, kStdout, kStderr, kTerminal, kEnded };
  Kind kind;
  std::string data;
  ProcessEnd end;
};

// A file or directory in the sandbox, as ListDir and Stat say.
struct RemoteEntry {
  std::string name;
  std::string path;
  std::string owner, group, permissions, modified, link_target;
  bool directory = false;
  std::uint64_t size = 0;
  unsigned mode = 0;
};

class ProcessStream;

class GuestClient : public std::enable_shared_from_this<GuestClient> {
 public:
  // Asks the API for the sandbox's token. kNotFound when it does not run.
  static Task<Result<std::shared_ptr<GuestClient>>> open(std::shared_ptr<ApiClient> api, std::string sandbox,
                                                         std::string user);
  GuestClient(std::shared_ptr<ApiClient> api, std::string sandbox, std::string token, std::string user)
      : api_(std::move(api)),
        sandbox_(std::move(sandbox)),
        token_(std::move(token)),
        user_(std::move(user)) {}

  Task<Result<json::value>> unary(std::string method, json::value body);
  // Starts a process; its stream survives dropped connections.
  Task<Result<std::shared_ptr<ProcessStream>>> start(ProcessSpec spec);
  // Runs a process to its end and gives what it wrote to standard output, at most `limit` bytes.
  Task<Result<std::pair<ProcessEnd, std::string>>> capture(ProcessSpec spec, std::size_t limit);

  Task<Result<RemoteEntry>> stat(std::string path);
  Task<Result<std::vector<RemoteEntry>>> list(std::string path, unsigned depth);

  // Gives the next bytes of a file to send; empty at its end.
  using Source = std::function<Task<Result<std::string>>()>;
  Task<Result<void>> upload(std::string path, std::optional<std::uint64_t> size, Source source);
  using Sink = std::function<Task<Result<void>>(std::string_view)>;
  // `total` of the sink's progress is the content length, 0 when unknown; told before the first byte.
  Task<Result<void>> download(std::string path, std::function<void(std::uint64_t)> on_size, Sink sink);

  const std::string& sandbox() const { return sandbox_; }
  ApiClient& api() { return *api_; }

 private:
  friend class ProcessStream;
  http::RequestHead request(std::string method, std::string target) const;
  // Sends one Connect request with a whole body; the answer is still to be read.
  Task<Result<std::unique_ptr<http::ClientExchange>>> post(http::RequestHead head, std::string body);

  std::shared_ptr<ApiClient> api_;
  std::string sandbox_;
  std::string token_;
  std::string user_;
};

// The running process. next() is called by one task; the other calls may run beside it.
class ProcessStream {
 public:
  ProcessStream(std::shared_ptr<GuestClient> guest, ProcessSpec spec);

  // The next event. After a dropped connection it connects again and goes on where it stopped: output is
  // neither lost nor doubled. An end event is the last one. kCancelled after interrupt().
  Task<Result<ProcessEvent>> next();
  // Ends a pending next() with kCancelled. The process goes on.
  void interrupt();

  // These two wait for the connection to come back, at most a minute; the process gets each byte once.
  Task<Result<void>> write(std::string data);
  Task<Result<void>> close_stdin();
  Task<Result<void>> send_signal(int number);
  Task<Result<void>> resize(TerminalSize size);
  std::int64_t pid() const { return pid_; }
  std::uint64_t lost_bytes() const {
    return lost_;
  }  // output that had left the daemon's ring before we came back

 private:
  Task<Result<void>> open_stream(std::string method, json::value body, Millis limit);
  Task<Result<void>> reconnect();
  Task<Result<json::value>> ask(std::string method, json::value body);
  Task<Result<std::optional<ProcessEvent>>> step();
  Result<std::optional<ProcessEvent>> take_envelope(http::connect::EnvelopeReader::Envelope envelope);
  Result<std::optional<ProcessEvent>> take_data(const json::value& data);
  json::object selector() const;

  std::shared_ptr<GuestClient> guest_;
  ProcessSpec spec_;
  std::string tag_;
  std::unique_ptr<http::ClientExchange> exchange_;
  http::connect::EnvelopeReader reader_;
  std::vector<char> block_;
  std::int64_t pid_ = 0;
  std::uint64_t offset_ = 0;  // of the next output byte
  std::uint64_t lost_ = 0;
  std::uint64_t input_offset_ = 0;
  bool started_ = false;
  bool interrupted_ = false;
};

}  // namespace atl::cli
