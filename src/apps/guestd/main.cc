// SPDX-License-Identifier: Apache-2.0
//
// atoll-guestd: PID 1 of a sandbox. Started by the runner with --boot-fd (proto/guest.md), or by hand with
// --listen.
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/log.h"
#include "base/text.h"
#include "guest/own_port.h"
#include "guest/reaper.h"
#include "guest/server.h"
#include "guest/start.h"

namespace {

using namespace atl;

constexpr char kHelp[] =
    "atoll-guestd: serves processes and files of one sandbox\n"
    "\n"
    "  --boot-fd N             what the runner hands over: a pipe that holds one GuestBoot\n"
    "  --listen ADDRESS:PORT   serve here, outside of a sandbox; port 0 takes any and prints it\n"
    "  --internal-token HEX    token of internal calls, with --listen\n"
    "  --run-dir PATH          where POST /init writes its files, with --listen\n"
    "  --help, --version\n";

struct Arguments {
  int boot_fd = -1;
  std::string listen;
  std::string internal_token;
  std::string run_directory;
};

std::optional<Arguments> parse_arguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (i + 1 == argc) return std::nullopt;
    std::string_view value = argv[++i];
    if (name == "--boot-fd")
      out.boot_fd = parse_number<int>(value).value_or(-1);
    else if (name == "--listen")
      out.listen = value;
    else if (name == "--internal-token")
      out.internal_token = value;
    else if (name == "--run-dir")
      out.run_directory = value;
    else
      return std::nullopt;
  }
  bool sandboxed = out.boot_fd >= 0;
  if (sandboxed == !out.listen.empty()) return std::nullopt;
  return out;
}

// An idle daemon gives its memory back: one arena, no thresholds that grow by themselves.
void keep_memory_small() {
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_THRESHOLD, 64 * 1024);
  ::mallopt(M_TRIM_THRESHOLD, 64 * 1024);
}

// Descriptors 0 to 2 are always taken, so that no other descriptor ever becomes a child's terminal.
void fill_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) {
      int null = ::open("/dev/null", O_RDWR);
      if (null >= 0 && null != fd) ::dup2(null, fd);
    }
  }
}

// Connections, pipes and watches of the daemon may need more than the usual soft limit.
void raise_descriptor_limit() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Root inside is no friend of the daemon: without this it could read the access token out of the daemon's
// memory and write its own code into it. KERNEL: only CAP_SYS_PTRACE outside of the sandbox passes then.
void close_memory() { ::prctl(PR_SET_DUMPABLE, 0); }

// A machine of its own (the microvm tier) leaves the daemon two rights that no other tier has: it sets the
// clock and feeds the kernel's random numbers. What it starts gets neither (capabilities(7), bounding set).
void keep_rights_from_children() {
  for (int capability : {CAP_SYS_TIME, CAP_SYS_ADMIN}) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

void set_close_on_exec(int fd) {
  if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

Result<guest::Options> read_boot(int fd) {
  guest::Options options;
  model::GuestBoot& boot = options.boot;
  ssize_t size = ::read(fd, &boot, sizeof boot);
  ::close(fd);
  if (size != sizeof boot || boot.magic != model::kGuestBootMagic || boot.version != 1)
    return make_error(Code::kInvalid, "the boot descriptor does not hold a GuestBoot of version 1");
  for (int passed :
       {boot.listen_fd, boot.memory_events_fd, boot.memory_usage_fd, boot.memory_stat_fd, boot.cpu_usage_fd,
        boot.ready_fd, boot.settle_fd, boot.cgroup_fd > 0 ? boot.cgroup_fd : -1})
    set_close_on_exec(passed);
  options.internal_token =
      hex_encode({reinterpret_cast<const char*>(boot.internal_token), sizeof boot.internal_token});
  options.run_directory = "/run/e2b";
  options.kept_file = "/etc/.atoll-environment";
  options.batch_directory = "/etc/.atoll-batches";
  return options;
}

guest::Options options_without_boot(const Arguments& arguments) {
  guest::Options options;
  model::GuestBoot& boot = options.boot;
  boot.listen_fd = boot.memory_events_fd = boot.memory_usage_fd = boot.memory_stat_fd = boot.cpu_usage_fd =
      boot.ready_fd = boot.settle_fd = boot.cgroup_fd = -1;
  options.internal_token = arguments.internal_token;
  options.run_directory = arguments.run_directory;
  return options;
}

Result<std::unique_ptr<net::Listener>> make_listener(async::Executor executor, const Arguments& arguments,
                                                     const guest::Options& options) {
  if (options.boot.listen_fd >= 0) return net::listen_on(executor, sys::Fd(options.boot.listen_fd));
  if (arguments.listen.empty()) {
    TRY(sys::Fd fd, guest::listen_alone(model::kGuestPort));
    return net::listen_on(executor, std::move(fd));
  }
  TRY(net::Endpoint endpoint, net::parse_endpoint(arguments.listen, net::AnyPort::kYes));
  TRY(auto listener, net::listen_tcp(executor, endpoint));
  std::printf("listening on port %u\n", listener->port());
  std::fflush(stdout);
  return listener;
}

// The runner waits for this where it could not hand over a socket that listens already.
void tell_ready(int fd) {
  if (fd < 0) return;
  if (::write(fd, "", 1) != 1) log::warn("cannot say that this listens", {{"errno", errno}});
  ::close(fd);
}

// The template's start command; none outside of a sandbox. Without its ports the sandbox is still of use.
std::optional<guest::Startup> make_startup(const Arguments& arguments, guest::Guest& guest) {
  if (arguments.boot_fd < 0) return std::nullopt;
  auto command = guest::read_start_command();
  if (!command) return std::nullopt;
  std::optional<guest::Startup> startup(std::in_place, guest, std::move(*command));
  auto listening = startup->listen();
  if (!listening.ok()) log::error("ports of the start command", {{"why", listening.error().message()}});
  return startup;
}

int fail(const Error& error) {
  log::error("cannot start", {{"why", error.message()}});
  return 1;
}

int serve(const Arguments& arguments) {
  auto options =
      arguments.boot_fd >= 0 ? read_boot(arguments.boot_fd) : Result(options_without_boot(arguments));
  if (!options.ok()) return fail(options.error());
  async::asio::io_context loop(1);
  auto listener = make_listener(loop.get_executor(), arguments, *options);
  if (!listener.ok()) return fail(listener.error());
  guest::Server server(loop.get_executor(), *options);
  std::optional<guest::Startup> startup = make_startup(arguments, server.guest());
  tell_ready(options->boot.ready_fd);
  guest::Reaper reaper(loop.get_executor(), server.guest().processes);
  async::Scope scope(loop.get_executor());
  scope.spawn("reaper", reaper.run());
  scope.spawn("server", server.run(std::move(*listener)));
  if (startup) {
    scope.spawn("start command", startup->run());
    scope.spawn("start command is ready", startup->wait_ready());
  }
  loop.run();
  // Only a bug gets here. The end of PID 1 ends the sandbox, which is the honest outcome.
  log::error("the event loop has ended");
  ::_exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") return std::fputs(kHelp, stdout) < 0;
  if (argc == 2 && std::string_view(argv[1]) == "--version")
    return std::puts("atoll-guestd " ATOLL_VERSION) < 0;
  auto arguments = parse_arguments(argc, argv);
  if (!arguments) return std::fputs(kHelp, stderr) < 0 ? 1 : 2;
  log::set_program("atoll-guestd");
  close_memory();
  if (arguments->boot_fd >= 0) keep_rights_from_children();
  if (arguments->boot_fd >= 0) ::unlink(model::kTmpHolder);
  keep_memory_small();
  fill_standard_descriptors();
  raise_descriptor_limit();
  guest::block_child_signals();
  ::signal(SIGPIPE, SIG_IGN);
  ::umask(0);
  if (::getpid() != 1) {
    // Outside of a PID namespace, orphans of user processes come to this process all the same.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  return serve(*arguments);
}
