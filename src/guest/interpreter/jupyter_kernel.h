// SPDX-License-Identifier: Apache-2.0
//
// JupyterKernel: a kernel that speaks the Jupyter messaging protocol over ZeroMQ.
#pragma once

#include <deque>

#include "guest/interpreter/jupyter.h"
#include "guest/interpreter/kernel.h"
#include "guest/interpreter/zmtp.h"

namespace atl::guest::interpreter {

class JupyterKernel final : public Kernel {
 public:
  JupyterKernel(Host& host, KernelSpec spec, std::string name);
  ~JupyterKernel() override;
  Task<Result<void>> execute(Call call, Output& output) override;

 protected:
  Task<Result<void>> attach() override;
  Result<std::map<std::string, std::string>> prepare() override;
  Task<> drain() override;
  void detach() override;

 private:
  // What one request has to hear before the kernel is free again.
  struct Waiting {
    std::string request;
    bool silent = false;
    bool idle = false;
    bool replied = false;
    bool told = false;  // the client got an error
  };
  Task<Result<std::unique_ptr<zmtp::Socket>>> connect(int socket, zmtp::Type type);
  // Reads the published output, or the answers, to the end of the socket.
  enum class Role : std::uint8_t { kOutput, kAnswers };
  Task<> pump(zmtp::Socket& socket, Role role);
  void take(jupyter::Heard heard, std::size_t bytes);
  Task<Result<void>> send(const jupyter::Request& request);
  Task<Result<void>> run(std::string code, std::string metadata, bool silent, Output& output);
  Task<bool> finish_request(Output& output, Steady::time_point until);
  Task<> handle(jupyter::Heard heard, Output& output);

  std::string session_;
  std::unique_ptr<zmtp::Socket> shell_;
  std::unique_ptr<zmtp::Socket> iopub_;
  std::optional<Waiting> waiting_;
  struct Held {
    jupyter::Heard heard;
    std::size_t bytes;
  };
  std::deque<Held> held_;  // of the request that runs
  std::size_t held_bytes_ = 0;
  Environment applied_;  // what the kernel has of environment_
  bool closed_ = false;  // nothing more will be published
};

// Code that sets and removes variables of the kernel's environment, in `language`. Empty: it has no such
// code.
std::string environment_code(std::string_view language, const Environment& set,
                             const std::vector<std::string>& remove);

}  // namespace atl::guest::interpreter
