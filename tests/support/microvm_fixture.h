// SPDX-License-Identifier: Apache-2.0
//
// For tests of the microvm tier over the runner's wire.
#pragma once

#include <gtest/gtest.h>

#include "base/text.h"
#include "model/features.h"
#include "model/machine.h"
#include "support/runner_world.h"

namespace atl::runner_test {

inline constexpr auto kMicrovmBit = 1u << static_cast<unsigned>(model::Tier::kMicrovm);
inline constexpr char kSnapshot[] = "s0000000000000000001";
inline constexpr auto kMicrovmIndex = static_cast<std::size_t>(model::Tier::kMicrovm);

// What `atoll-template machine` said, and its image in the data directory `data`; empty: it made none.
struct MachineImage {
  std::string path, said;
};
inline MachineImage make_image(const std::string& data, const std::string& kernel_tree,
                               const std::string& qemu_tree) {
  MachineImage out;
  std::filesystem::create_directories(data);
  std::string command = fmt::format("{} machine --data-dir {} --kernel-tree {} --qemu-tree {} 2>&1",
                                    ATOLL_TEMPLATE_PROGRAM, data, kernel_tree, qemu_tree);
  FILE* pipe = ::popen(command.c_str(), "r");
  char text[512];
  while (::fgets(text, sizeof text, pipe) != nullptr) out.said += text;
  if (::pclose(pipe) == 0)
    out.path = fmt::format("{}/{}/{}", data, model::kMachineFolder, model::kMachineImage);
  return out;
}
inline std::string qemu_tree() {
  return ::access(ATOLL_SETUP_QEMU "/usr", F_OK) == 0 ? ATOLL_SETUP_QEMU : "/";
}

inline std::string image_folder() { return fmt::format("/tmp/atoll-machine-{}", ::getpid()); }

// That of this run, made once.
inline const MachineImage& machine_image() {
  static const MachineImage made = make_image(image_folder(), ATOLL_SETUP_KERNEL, qemu_tree());
  return made;
}

class ImageRemoval : public testing::Environment {
  void TearDown() override { std::filesystem::remove_all(image_folder()); }
};
inline const auto* const image_removal = testing::AddGlobalTestEnvironment(new ImageRemoval);

class MicrovmTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string obstacle = World::obstacle();
    if (obstacle.empty() && machine_image().path.empty())
      obstacle = "needs QEMU and a kernel (tools/setup): " + machine_image().said;
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    world_.emplace();
  }
  // With what an earlier self-test of this image found, so that not every test waits for one.
  void give_image() {
    std::filesystem::create_directories(world_->path("data/machine"));
    std::filesystem::create_directories(world_->path("run"));
    std::filesystem::create_hard_link(machine_image().path, world_->path("data/machine/machine-3.erofs"));
    if (!tested_.empty()) std::ofstream(world_->path("run/microvm.tested")) << tested_;
  }
  // After the first start a guest is booted to see whether it can be, which takes a while.
  void start(const std::vector<std::string>& flags = {"--microvm-emulation"}) {
    bool answers = world_->start({}, flags);
    for (int i = 0; i < 2 && !answers; ++i)
      answers = soon([this] { return WireClient(world_->socket()).open(); });
    ASSERT_TRUE(answers) << world_->log();
    connect();
    tested_ = sys::read_file(world_->path("run/microvm.tested")).value_or(tested_);
  }
  // What looked whether it answers may be accepted after us, and takes our place then.
  void connect() {
    for (int i = 0; i < 10; ++i) {
      client_.emplace(world_->socket());
      if (client_->hello_when_tested()) return;
    }
    ADD_FAILURE() << "no connection stays open";
  }
  static wire::StartRequest request(char letter) {
    wire::StartRequest out = World::request(World::id(letter));
    out.tier = static_cast<std::uint8_t>(model::Tier::kMicrovm);
    return out;
  }
  wire::StartReply started(const wire::StartRequest& wanted) {
    client_->send(wanted, wire::Type::kStart);
    auto reply = client_->receive<wire::StartReply>(wire::Type::kStartReply);
    if (!reply)
      reply = client_->receive<wire::StartReply>(wire::Type::kStartReply);  // emulated, on a busy machine
    if (!reply || reply->status.ok == 0) {
      ADD_FAILURE() << (reply ? reply->status.message.str() : "no reply") << "\n"
                    << world_->log() << sys::read_file(world_->path("run/microvm.log")).value_or("");
      return {};
    }
    return *reply;
  }
  wire::HelloReply hello() {
    client_->send(wire::Empty{}, wire::Type::kHello);
    return client_->receive<wire::HelloReply>(wire::Type::kHelloReply).value_or(wire::HelloReply{});
  }
  // True when a process could write to the file through what it has open.
  static bool could_write(int pid, const std::string& file) {
    std::string open = fmt::format("/proc/{}/fd", pid);
    std::error_code error;
    for (const std::string& number : sys::list_directory(open).value_or({})) {
      if (std::filesystem::equivalent(file, open + "/" + number, error) && for_writing(pid, number))
        return true;
    }
    return false;
  }
  // The same for the memory of a prepared machine.
  bool holds_prepared_memory(int pid) {
    std::string kinds = world_->path("data/prepared");
    for (const std::string& kind : sys::list_directory(kinds).value_or({}))
      if (could_write(pid, fmt::format("{}/{}/memory", kinds, kind))) return true;
    return false;
  }
  // By its open flags, in octal (proc(5), "fdinfo").
  static bool for_writing(int pid, const std::string& number) {
    std::string info = sys::read_file(fmt::format("/proc/{}/fdinfo/{}", pid, number)).value_or("");
    auto at = info.find("flags:");
    return at == info.npos || (std::strtol(info.c_str() + at + 6, nullptr, 8) & O_ACCMODE) != O_RDONLY;
  }
  // The QEMU of one that no runner knows; 0: none.
  pid_t machine(char letter) const {
    for (const std::string& top : World::hierarchies()) {
      std::string group = top + "/" + world_->name() + "/" + World::id(letter);
      pid_t pid = std::atoi(sys::read_file(group + "/cgroup.procs").value_or("").c_str());
      if (pid > 0) return pid;
    }
    return 0;
  }
  // Those who have a machine of this world written out.
  std::vector<pid_t> readers() const {
    std::vector<pid_t> out;
    for (const std::string& entry : sys::list_directory("/proc").value_or({})) {
      std::error_code error;
      std::string file = std::filesystem::read_symlink("/proc/" + entry + "/fd/4", error);
      bool reads = sys::read_file("/proc/" + entry + "/cmdline").value_or("").starts_with("atoll-qmp");
      if (reads && file.starts_with(world_->path("data"))) out.push_back(std::atoi(entry.c_str()));
    }
    return out;
  }
  // Emulated, on a busy machine.
  bool died() { return world_->wait_death() || world_->wait_death(); }
  bool gone(char letter) {
    return soon([&] { return world_->leftovers(World::id(letter)).empty(); });
  }

  std::string shell(char letter, const std::string& command) { return World::shell(links_[letter], command); }
  void launch(char letter) {
    links_[letter] = started(request(letter)).interface.str();
    ASSERT_NE(links_[letter], "");
  }
  // A pause and a resume over the wire; their errors' words, or "".
  std::string pause(char letter, World::Memory memory) {
    auto done = World::pause_sandbox(*client_, World::id(letter), memory);
    if (!done) done = client_->receive<wire::PauseReply>(wire::Type::kPauseReply);  // a busy machine
    if (!done) return "no answer";
    return done->status.ok == 1 ? "" : done->status.word.str() + ": " + done->status.message.str();
  }
  std::string resume(char letter) {
    wire::StartRequest wanted = request(letter);
    wanted.generation = 8;
    client_->send(wanted, wire::Type::kResume);
    auto reply = client_->receive<wire::StartReply>(wire::Type::kStartReply);
    if (!reply) reply = client_->receive<wire::StartReply>(wire::Type::kStartReply);
    if (!reply) return "no answer";
    if (reply->status.ok == 0) return reply->status.word.str();
    links_[letter] = reply->interface.str();
    return "";
  }

  static std::uint64_t stored_kib(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return static_cast<std::uint64_t>(info.st_blocks) / 2;
  }
  std::string snapshot(char letter, const char* name, bool memory) {
    wire::SnapshotRequest wanted{};
    wanted.sandbox.set(World::id(letter));
    wanted.snapshot.set(name);
    wanted.memory = memory ? 1 : 0;
    client_->send(wanted, wire::Type::kSnapshot);
    auto reply = client_->receive<wire::SnapshotReply>(wire::Type::kSnapshotReply);
    if (!reply) return "no answer";
    return reply->status.ok == 1 ? "" : reply->status.word.str() + ": " + reply->status.message.str();
  }

  static inline std::string tested_;
  std::optional<World> world_;
  std::optional<WireClient> client_;
  std::map<char, std::string> links_;
};

}  // namespace atl::runner_test
