// SPDX-License-Identifier: Apache-2.0
//
// A world for tests of the runner: a network namespace of the test's own with a small "internet" behind it,
// templates made of busybox, and the real runner program with a stand-in for the guest daemon
// (stub_guestd.c). Needs root. Nothing of the host's network is touched; cgroups are below a parent named
// after the test's process.
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "model/guest_boot.h"
#include "model/runner_protocol.h"
#include "sys/fd.h"
#include "sys/files.h"
#include "sys/netlink/netlink.h"
#include "sys/seqpacket.h"

namespace atl::runner_test {

namespace wire = model::wire;

inline constexpr char kBuild[] = "11111111-1111-4111-8111-111111111111";
inline constexpr char kHostileBuild[] = "22222222-2222-4222-8222-222222222222";
inline constexpr int kSinkPort = 8080;  // of the listeners on the host and in the "internet"

// Waits until `condition` holds; false after a minute: machines that are emulated twice over, with
// sanitizers, take more than ten seconds to start a runner. Each look is a look at the kernel, not at a
// clock.
template <class Condition>
bool soon(Condition condition) {
  auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::usleep(2000);
  }
  return true;
}

// A connection to the runner, as control makes it.
class WireClient {
 public:
  explicit WireClient(const std::string& socket) {
    Result<sys::Fd> fd = sys::seqpacket_connect(socket);
    if (fd.ok()) fd_ = std::move(*fd);
  }
  bool open() const { return static_cast<bool>(fd_); }

  // Sends a request under a fresh id, which it returns.
  template <class Request>
  std::uint64_t send(Request request, wire::Type type) {
    request.header = {wire::kMagic, wire::kVersion, static_cast<std::uint16_t>(type), next_++};
    send_raw(&request, sizeof request);
    return request.header.id;
  }
  void send_raw(const void* bytes, std::size_t size) { ::send(fd_.get(), bytes, size, MSG_NOSIGNAL); }
  // The next message of this type; others are kept for later. Nothing after ten seconds or at the end.
  template <class Reply>
  std::optional<Reply> receive(wire::Type type) {
    for (;;) {
      for (auto message = kept_.begin(); message != kept_.end(); ++message) {
        wire::Header header;
        std::memcpy(&header, message->data(), sizeof header);
        if (header.type != static_cast<std::uint16_t>(type) || message->size() != sizeof(Reply)) continue;
        Reply reply;
        std::memcpy(&reply, message->data(), sizeof reply);
        kept_.erase(message);
        return reply;
      }
      if (!read_one()) return std::nullopt;
    }
  }
  // What the runner knows of the host when it has tested all tiers; emulated on a busy machine that takes
  // long.
  std::optional<wire::HelloReply> hello_when_tested() {
    send(wire::Empty{}, wire::Type::kHello);
    auto host = receive<wire::HelloReply>(wire::Type::kHelloReply);
    for (int i = 0; i < 6 && host && host->tested_tiers != 0 && !gone_;) {
      auto news = receive<wire::HelloReply>(wire::Type::kHost);
      if (news)
        host = news;
      else
        ++i;
    }
    return host;
  }
  // True when the runner has ended the connection.
  bool ended() {
    while (read_one()) {}
    return gone_;
  }

 private:
  bool read_one() {
    pollfd item{fd_.get(), POLLIN, 0};
    if (::poll(&item, 1, 10'000) <= 0) return false;
    char buffer[wire::kMaxMessage];
    ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    gone_ = n <= 0;
    if (n > 0) kept_.emplace_back(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }
  sys::Fd fd_;
  std::uint64_t next_ = 1;
  bool gone_ = false;
  std::vector<std::string> kept_;
};

// Listens on every address of the current network namespace and greets each connection with `word`.
// In a process of its own, which dies with the test.
inline void greet_in_background(const std::string& word) {
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kSinkPort);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  ::listen(listener, 64);
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGCHLD, SIG_IGN);
    for (;;) {
      int connection = ::accept(listener, nullptr, nullptr);
      if (connection < 0 || ::fork() != 0) {
        ::close(connection);
        continue;
      }
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // fork cleared it
      // Greets, and answers each line, for connections that stay open.
      std::string line = word + "\n";
      char buffer[256];
      do {
        if (::send(connection, line.data(), line.size(), MSG_NOSIGNAL) < 0) break;
      } while (::recv(connection, buffer, sizeof buffer, 0) > 0);
      ::_exit(0);
    }
  }
  ::close(listener);
}

class World {
 public:
  // Why such tests cannot run here; empty when they can.
  static std::string obstacle() {
    if (::geteuid() != 0) return "needs root";
    if (busybox().empty()) return "needs busybox-static";
    if (::access("/usr/bin/mkfs.erofs", X_OK) != 0) return "needs erofs-utils";
    return {};
  }

  // The runsc of this machine or of tools/setup; empty when there is none.
  static std::string runsc() {
    for (const char* candidate : {ATOLL_SETUP_RUNSC, "/usr/local/bin/runsc", "/usr/bin/runsc"}) {
      if (::access(candidate, X_OK) == 0) return candidate;
    }
    return {};
  }

  World() : name_(fmt::format("rt{}", ::getpid())), directory_("/tmp/atoll-" + name_) {
    make_network();
    make_templates();
  }
  World(const World&) = delete;
  ~World() {
    if (runner_ > 0) {
      // What a failed test left must not stay on the machine.
      WireClient client(socket());
      if (client.open()) {
        for (const auto& [id, reply] : list(client)) stop_sandbox(client, id);
      }
      kill();
    }
    for (const std::string& top : hierarchies()) {
      for (const std::string& group : sys::list_directory(top + "/" + name_).value_or({})) {
        ::rmdir((top + "/" + name_ + "/" + group).c_str());
      }
      ::rmdir((top + "/" + name_).c_str());
    }
    std::filesystem::remove_all(directory_);
  }

  // Again, when something was mounted on the data directory.
  void make_templates() {
    std::filesystem::create_directories(directory_ + "/data/templates");
    make_template(kBuild, false);
    make_template(kHostileBuild, true);
  }

  // Starts the runner and waits until it answers. False when it ends instead.
  bool start(const std::string& fault = {}, std::vector<std::string> more = {}) {
    spawn(fault, std::move(more));
    return soon([this] { return WireClient(socket()).open() || ::kill(runner_, 0) != 0 || zombie(); }) &&
           WireClient(socket()).open();
  }
  void kill() {
    if (runner_ <= 0) return;
    ::kill(runner_, SIGKILL);
    wait_end();
  }
  int terminate() {
    ::kill(runner_, SIGTERM);
    return wait_end();
  }
  // The wait status of a runner that ends by itself; nothing after a minute.
  std::optional<int> wait_death() {
    if (!soon([this] { return zombie(); })) return std::nullopt;
    return wait_end();
  }
  pid_t pid() const { return runner_; }
  std::string socket() const { return directory_ + "/run/runner.sock"; }
  std::string path(const std::string& below) const { return directory_ + "/" + below; }
  const std::string& name() const { return name_; }
  pid_t launcher() const {
    std::string children = sys::read_file(fmt::format("/proc/{0}/task/{0}/children", runner_)).value_or("");
    return static_cast<pid_t>(std::atoi(children.c_str()));
  }

  // How many keys belong to this user: a session keyring counts as one (proc(5), /proc/key-users).
  static unsigned keys_of(std::uint32_t uid) {
    std::istringstream lines(sys::read_file("/proc/key-users").value_or(""));
    unsigned user = 0, keys = 0;
    for (std::string line; std::getline(lines, line);) {
      if (std::sscanf(line.c_str(), " %u: %*d %u/", &user, &keys) == 2 && user == uid) return keys;
    }
    return 0;
  }
  // `letter` makes the id: the same letter, the same id.
  static std::string id(char letter) { return "i" + std::string(20, letter); }
  static wire::StartRequest request(const std::string& sandbox) {
    wire::StartRequest out{};
    out.sandbox.set(sandbox);
    out.generation = 7;
    out.owner_epoch = 3;
    out.build.set(kBuild);
    out.tier = static_cast<std::uint8_t>(model::Tier::kContainer);
    out.internet = 1;
    out.cpu_millis = 1000;
    out.processes = 64;
    out.open_files = 1024;
    out.memory_bytes = 128ull << 20;
    out.disk_bytes = 64ull << 20;
    return out;
  }
  static std::optional<wire::StartReply> start_sandbox(WireClient& client,
                                                       const wire::StartRequest& request) {
    client.send(request, wire::Type::kStart);
    return client.receive<wire::StartReply>(wire::Type::kStartReply);
  }
  static std::optional<wire::StartReply> start_sandbox(WireClient& client, const std::string& sandbox) {
    return start_sandbox(client, request(sandbox));
  }
  static std::optional<wire::StopReply> stop_sandbox(WireClient& client, const std::string& sandbox) {
    wire::SandboxRef ref{};
    ref.sandbox.set(sandbox);
    client.send(ref, wire::Type::kStop);
    return client.receive<wire::StopReply>(wire::Type::kStopReply);
  }
  enum class Memory : bool { kLost, kKept };
  static std::optional<wire::PauseReply> pause_sandbox(WireClient& client, const std::string& sandbox,
                                                       Memory memory) {
    wire::PauseRequest request{};
    request.sandbox.set(sandbox);
    request.memory = memory == Memory::kKept ? 1 : 0;
    client.send(request, wire::Type::kPause);
    return client.receive<wire::PauseReply>(wire::Type::kPauseReply);
  }
  static std::optional<wire::StartReply> resume_sandbox(WireClient& client, const std::string& sandbox,
                                                        std::uint64_t generation) {
    wire::StartRequest request = World::request(sandbox);
    request.generation = generation;
    client.send(request, wire::Type::kResume);
    return client.receive<wire::StartReply>(wire::Type::kStartReply);
  }
  static std::map<std::string, wire::ListReply> list(WireClient& client) {
    client.send(wire::Empty{}, wire::Type::kList);
    std::map<std::string, wire::ListReply> out;
    while (auto reply = client.receive<wire::ListReply>(wire::Type::kListReply)) {
      if (reply->last != 0) break;
      out[reply->sandbox.str()] = *reply;
    }
    return out;
  }

  // A connection to the guest daemon behind `link`; none when nobody listens.
  static sys::Fd connect(const std::string& link) {
    sys::Fd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::setsockopt(connection.get(), SOL_SOCKET, SO_BINDTODEVICE, link.data(),
                 static_cast<socklen_t>(link.size()));
    timeval limit{20, 0};
    ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(model::kGuestPort);
    ::inet_pton(AF_INET, model::kGuestAddress, &address.sin_addr);
    if (::connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
    return connection;
  }
  // Runs a shell command inside the sandbox behind `link`, through the link as control would; its output.
  static std::string shell(const std::string& link, const std::string& command) {
    sys::Fd connection = connect(link);
    if (!connection) return "no connection";
    std::string line = command + "\n";
    ::send(connection.get(), line.data(), line.size(), MSG_NOSIGNAL);
    return sys::read_all(connection.get(), 1 << 20).value_or("cut");
  }

  // Everything of a sandbox that is still there, as text.
  std::vector<std::string> leftovers(const std::string& sandbox) const {
    std::vector<std::string> left;
    for (const std::string& top : hierarchies()) {
      std::string group = top + "/" + name_ + "/" + sandbox;
      if (::access(group.c_str(), F_OK) == 0) left.push_back(group);
    }
    for (std::string file : {path("run/sandboxes/" + sandbox), path("data/disks/" + sandbox + ".img"),
                             path("data/stored/" + sandbox)}) {
      if (::access(file.c_str(), F_OK) == 0) left.push_back(file);
    }
    for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
      std::string backing = sys::read_file(entry.path().string() + "/loop/backing_file").value_or("");
      if (backing.find(directory_) != std::string::npos && backing.find(sandbox) != std::string::npos)
        left.push_back(backing);
    }
    return left;
  }
  // Processes of our runners, alive but neither the present runner nor its launcher.
  std::vector<pid_t> stray_helpers() const {
    std::vector<pid_t> stray;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 0 || pid == runner_ || pid == launcher()) continue;
      std::string command =
          sys::read_file(entry.path().string() + "/cmdline").value_or("");  // empty of zombies
      if (command.find("atoll-runner") != std::string::npos &&
          command.find(path("run")) != std::string::npos) {
        stray.push_back(pid);
      }
    }
    return stray;
  }
  // Links of slots in this network namespace.
  static std::vector<std::string> links() {
    Result<sys::Netlink> netlink = sys::Netlink::open_route();
    return netlink.ok() ? netlink->links("atl").value_or({}) : std::vector<std::string>{};
  }
  static std::vector<std::string> hierarchies() {
    std::vector<std::string> out;
    for (const char* name : {"memory", "cpu", "cpuacct", "cpu,cpuacct", "pids", "unified"}) {
      std::string top = std::string("/sys/fs/cgroup/") + name;
      if (::access((top + "/cgroup.procs").c_str(), F_OK) == 0) out.push_back(top);
    }
    if (::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0) out.push_back("/sys/fs/cgroup");
    return out;
  }
  std::string log() const { return sys::read_file(path("runner.log"), 1 << 20).value_or(""); }

 private:
  static std::string busybox() {
    for (const char* candidate : {"/usr/bin/busybox", "/bin/busybox"}) {
      if (::access(candidate, X_OK) == 0) return candidate;
    }
    return {};
  }

  void make_template(const std::string& build, bool hostile) {
    std::string root = directory_ + "/root-" + build;
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root + "/bin");
    std::filesystem::copy_file(busybox(), root + "/bin/busybox");
    for (const char* tool :
         {"sh",       "cat",    "ls",    "id",      "mount", "umount", "mknod", "nc",       "dd",    "head",
          "wc",       "stat",   "sleep", "echo",    "touch", "mkdir",  "rm",    "chown",    "chmod", "ps",
          "hostname", "df",     "su",    "unshare", "ip",    "grep",   "true",  "readlink", "sync",  "kill",
          "tr",       "chroot", "env",   "test",    "seq",   "ln",     "cp",    "tail"}) {
      std::filesystem::create_symlink("busybox", root + "/bin/" + tool);
    }
    if (hostile) {
      for (const char* name : {"proc", "sys", "dev", "etc", "tmp", "run"}) {
        std::filesystem::create_symlink("../../../../../.." + directory_ + "/victim", root + "/" + name);
      }
      std::filesystem::create_directories(directory_ + "/victim");
    } else {
      std::filesystem::create_directories(root + "/etc");
      std::ofstream(root + "/etc/passwd") << "root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n";
      std::ofstream(root + "/etc/group") << "root:x:0:\nuser:x:1000:\n";
      std::filesystem::copy_file(busybox(), root + "/bin/suid");
      ::chmod((root + "/bin/suid").c_str(), 04755);
    }
    std::string target = directory_ + "/data/templates/" + build;
    std::filesystem::create_directories(target);
    std::string command = "mkfs.erofs " + target + "/root.erofs " + root + " >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) std::abort();
  }

  // This process moves to a network namespace of its own. Behind its uplink is another: the "internet", which
  // has every address, also those that nobody may reach.
  void make_network() {
    if (::unshare(CLONE_NEWNET) != 0) std::abort();
    sys::Netlink here = std::move(sys::Netlink::open_route().value());
    sys::Fd home = std::move(sys::open_file("/proc/thread-self/ns/net", O_RDONLY).value());
    if (::unshare(CLONE_NEWNET) != 0) std::abort();
    sys::Netlink there = std::move(sys::Netlink::open_route().value());
    auto must = [](const Result<void>& done) {
      if (!done.ok()) {
        std::fprintf(stderr, "test network: %s\n", done.error().message().c_str());
        std::abort();
      }
    };
    must(there.create_veth("net0", {2, 0, 0, 0, 0, 1}, "up0", {2, 0, 0, 0, 0, 2}, home.get()));
    std::uint32_t lo = there.link_index("lo").value(), net = there.link_index("net0").value();
    std::uint32_t up = here.link_index("up0").value();
    must(there.set_up(lo));
    must(there.set_up(net));
    must(here.set_up(here.link_index("lo").value()));
    must(here.set_up(up));
    must(there.add_address(net, {203, 0, 113, 1}, 24));
    must(here.add_address(up, {203, 0, 113, 2}, 24));
    for (sys::Ipv4 address : {sys::Ipv4{9, 9, 9, 9},
                              {8, 8, 8, 8},
                              {8, 8, 4, 4},
                              {10, 1, 1, 1},
                              {169, 254, 169, 254},
                              {192, 168, 7, 7},
                              {172, 16, 3, 3},
                              {100, 100, 100, 200},
                              {198, 18, 0, 1}}) {
      must(there.add_address(lo, address, 32));
    }
    greet_in_background("internet");
    if (::setns(home.get(), CLONE_NEWNET) != 0) std::abort();
    must(here.add_route(up, {0, 0, 0, 0}, 0, sys::Ipv4{203, 0, 113, 1}));
    greet_in_background("host");
  }

  void spawn(const std::string& fault, std::vector<std::string> more) {
    std::vector<std::string> words = {ATOLL_RUNNER_PROGRAM,
                                      "--data-dir",
                                      path("data"),
                                      "--run-dir",
                                      path("run"),
                                      "--instance",
                                      name_,
                                      "--control-uid",
                                      "1234",
                                      "--slot-first",
                                      "3000",
                                      "--slot-count",
                                      "40",
                                      "--guestd",
                                      ATOLL_STUB_GUESTD,
                                      "--ready-slots",
                                      "3",
                                      "--ready-disks",
                                      "2",
                                      "--disk-mib",
                                      "64",
                                      "--runsc",
                                      "none"};
    words.insert(words.end(), more.begin(), more.end());
    runner_ = ::fork();
    if (runner_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int log = ::open(path("runner.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, 1);
    ::dup2(log, 2);
    ::setenv("ATOLL_FAULT", fault.c_str(), 1);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(99);
  }
  bool zombie() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(runner_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }
  int wait_end() {
    int status = 0;
    ::waitpid(runner_, &status, 0);
    runner_ = 0;
    return status;
  }

  const std::string name_;
  const std::string directory_;
  pid_t runner_ = 0;
};

}  // namespace atl::runner_test
