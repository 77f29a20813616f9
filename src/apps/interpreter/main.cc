// SPDX-License-Identifier: Apache-2.0
//
// atoll-interpreter: runs code in kernels for clients of the code interpreter. Started inside a sandbox of
// the template code-interpreter-v1 by the guest daemon, which hands over the listening socket.
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/text.h"
#include "guest/interpreter/kernels.h"
#include "guest/interpreter/limits.h"
#include "guest/interpreter/run_directory.h"
#include "guest/interpreter/server.h"
#include "guest/reaper.h"
#include "sys/files.h"

extern char** environ;

namespace {

using namespace atl;

constexpr char kHelp[] =
    "atoll-interpreter: runs code in kernels, for clients of the code interpreter\n"
    "\n"
    "  --listen ADDRESS:PORT   serve here; port 0 takes any and prints it. Without it, descriptor 3 is the\n"
    "                          listening socket (LISTEN_FDS=1)\n"
    "  --kernels DIR           where the kernel programs are (default: the folder of this program)\n"
    "  --guest ADDRESS:PORT    the guest daemon (default: 127.0.0.1:49983)\n"
    "  --unpack DIR            write the kernel programs into DIR and end\n"
    "  --help, --version\n";

struct Arguments {
  std::string listen, kernels, unpack;
  std::string guest = "127.0.0.1:49983";
};

std::optional<Arguments> parse_arguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (i + 1 == argc) return std::nullopt;
    std::string_view value = argv[++i];
    if (name == "--listen")
      out.listen = value;
    else if (name == "--kernels")
      out.kernels = value;
    else if (name == "--guest")
      out.guest = value;
    else if (name == "--unpack")
      out.unpack = value;
    else
      return std::nullopt;
  }
  return out;
}

int fail(const Error& error) {
  log::error("cannot start", {{"why", error.message()}});
  return 1;
}

// Kernels get what this program got, but for what was meant for it alone.
guest::interpreter::Environment own_environment() {
  guest::interpreter::Environment out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.starts_with("LISTEN_")) continue;
    out[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return out;
}

std::string folder_of_this_program() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).parent_path().string();
}

Result<guest::interpreter::Options> make_options(const Arguments& arguments) {
  guest::interpreter::Options options;
  options.environment = own_environment();
  const char* home = std::getenv("HOME");
  options.home = home != nullptr ? home : "/";
  options.places = guest::interpreter::standard_places(
      arguments.kernels.empty() ? folder_of_this_program() : arguments.kernels, options.home);
  TRY(options.guest_daemon, net::parse_endpoint(arguments.guest));
  // Two that were started by hand may live side by side.
  std::string parent = guest::interpreter::run_parent("/dev/shm", "/tmp");
  if (arguments.listen.empty()) options.forgotten = guest::interpreter::sweep_earlier_lives(parent);
  TRY(options.run_directory, guest::interpreter::make_run_directory(parent));
  return options;
}

Result<std::unique_ptr<net::Listener>> make_listener(async::Executor executor, const Arguments& arguments) {
  if (arguments.listen.empty()) {
    const char* passed = std::getenv("LISTEN_FDS");
    if (passed == nullptr || std::string_view(passed) != "1")
      return make_error(Code::kInvalid, "no socket was handed over, and --listen is not given");
    return net::listen_on(executor, sys::Fd(3));
  }
  TRY(net::Endpoint endpoint, net::parse_endpoint(arguments.listen, net::AnyPort::kYes));
  TRY(auto listener, net::listen_tcp(executor, endpoint));
  std::printf("listening on port %u\n", listener->port());
  std::fflush(stdout);
  return listener;
}

// SIGTERM and SIGINT: kernels and the run directory must not stay.
async::Task<> end_on_signal(guest::interpreter::Server& server, guest::ProcessTable& processes,
                            guest::Reaper& reaper, async::asio::io_context& loop) {
  async::asio::signal_set signals(loop, SIGTERM, SIGINT);
  co_await signals.async_wait(async::use_result);
  co_await server.shut_down();
  co_await processes.shut_down();
  reaper.stop();
  loop.stop();
}

int serve(const Arguments& arguments) {
  auto options = make_options(arguments);
  if (!options.ok()) return fail(options.error());
  async::asio::io_context loop(1);
  auto listener = make_listener(loop.get_executor(), arguments);
  if (!listener.ok()) return fail(listener.error());
  guest::Workers workers(2);
  // A client that does not take its output holds the code back for as long as it stays connected.
  guest::ProcessTable processes(loop.get_executor(), workers, guest::OomCounter(), std::chrono::hours(24));
  guest::interpreter::Server server(loop.get_executor(), processes, *options);
  guest::Reaper reaper(loop.get_executor(), processes);
  async::Scope scope(loop.get_executor());
  scope.spawn("reaper", reaper.run());
  scope.spawn("server", server.run(std::move(*listener)));
  scope.spawn("end", end_on_signal(server, processes, reaper, loop));
  loop.run();
  std::error_code failure;
  std::filesystem::remove_all(options->run_directory, failure);
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") return std::fputs(kHelp, stdout) < 0;
  if (argc == 2 && std::string_view(argv[1]) == "--version")
    return std::puts("atoll-interpreter " ATOLL_VERSION) < 0;
  auto arguments = parse_arguments(argc, argv);
  if (!arguments) return std::fputs(kHelp, stderr) < 0 ? 1 : 2;
  log::set_program("atoll-interpreter");
  if (!arguments->unpack.empty()) {
    auto unpacked = guest::interpreter::unpack_kernels(arguments->unpack);
    return unpacked.ok() ? 0 : fail(unpacked.error());
  }
  ::mallopt(M_ARENA_MAX, 1);
  guest::block_child_signals();
  ::signal(SIGPIPE, SIG_IGN);
  // Children of kernels that lose their parent come to this program, which reaps them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return serve(*arguments);
}
