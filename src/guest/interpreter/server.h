// SPDX-License-Identifier: Apache-2.0
//
// The code interpreter's HTTP server, as the published client speaks to it on port 49999
// (docs/guides/code-interpreter.md).
#pragma once

#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "async/scope.h"
#include "base/secret.h"
#include "guest/interpreter/context.h"
#include "guest/interpreter/limits.h"
#include "guest/interpreter/stream.h"
#include "http/client.h"
#include "http/server.h"
#include "net/tcp.h"

namespace atl::guest::interpreter {

using http::Exchange;

// What main() was told.
struct Options {
  KernelPlaces places;
  std::string home;           // where contexts begin
  std::string run_directory;  // 0700
  Environment environment;    // of kernels
  net::Endpoint guest_daemon{"127.0.0.1", 49983};
  std::string identity_directory = "/run/e2b";  // where the guest daemon writes who this sandbox is
  Steady::duration interrupt_limit = kInterruptLimit;
  // Languages in whose default contexts code ran in an earlier life of this interpreter (run_directory.h).
  std::set<std::string> forgotten;
  Steady::duration client_last_words = kClientLastWords;  // of shut_down()
  std::size_t max_contexts = kMaxContexts;
};

// One interpreter. Use from its loop only.
class Server {
 public:
  Server(async::Executor executor, ProcessTable& processes, Options options);
  ~Server();

  // Starts the default context and serves connections until the listener is closed.
  Task<> run(std::unique_ptr<net::Listener> listener);
  // Ends connections and kernels; for tests and an orderly end. Waits a moment for clients to take the last
  // words of code that runs.
  Task<> shut_down();

 private:
  struct ExecuteRequest {
    Call call;
    std::string context;   // id; empty: the default one of `language`
    std::string language;  // as asked
  };
  static Result<ExecuteRequest> parse_execute(std::string_view text);

  // A task that works with a kernel holds one: it must not be cancelled half-way, so shut_down() waits for
  // it.
  class Work {
   public:
    explicit Work(Server& server) : server_(server) { ++server_.works_; }
    ~Work() {
      --server_.works_;
      server_.work_done_.notify_all();
    }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Server& server_;
  };

  Task<> serve_connection(net::StreamPtr stream);
  Task<> handle(Exchange& exchange);
  Task<> serve_execute(Exchange& exchange);
  Task<> stream_execution(Exchange& exchange, ContextPtr context, Call call);
  Task<> serve_create(Exchange& exchange);
  Task<> serve_context(Exchange& exchange, std::string_view method, std::string_view rest);
  Task<> warm_up(ContextPtr context);
  // GET /ready: answered when the first call finds a kernel that runs.
  Task<> serve_ready(Exchange& exchange);
  // Breaks off, after a moment, what clients have not taken.
  Task<> cut_off_clients();
  // Before code runs in `context`.
  void note_use(const ContextInfo& context);

  // Takes the environment of the sandbox from the guest daemon, which also tells whether the caller may run
  // code: kUnauthenticated when it does not know the token.
  Task<Result<void>> authorize(Exchange& exchange);
  Result<ContextPtr> find(const ExecuteRequest& request);
  Result<ContextPtr> add(const std::string& language, std::string directory);
  Result<ContextPtr> add_default(const std::string& language);

  async::Executor executor_;
  Options options_;
  Host host_;
  http::ServerLimits limits_;
  http::Handler handler_;
  std::shared_ptr<http::Client> guest_daemon_;
  async::Scope connections_;
  net::Listener* listener_ = nullptr;
  std::vector<ContextPtr> contexts_;  // in the order of their creation
  Environment defaults_;              // language → id of its default context
  Environment globals_;               // the sandbox's environment
  Secret known_token_;                // with which globals_ was read
  std::string known_sandbox_;         // and in which sandbox: a copy of one has a name of its own
  bool authorized_ = false;
  std::set<std::string> noted_;  // languages whose use was noted
  std::list<Stream*> streams_;   // answers under way
  std::size_t works_ = 0;        // that exist
  async::Event work_done_;
  bool stopping_ = false;
  bool warm_ = false;  // the default context has started, or does not
  async::Event warmed_;
};

}  // namespace atl::guest::interpreter
