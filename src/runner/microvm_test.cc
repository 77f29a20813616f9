// SPDX-License-Identifier: Apache-2.0
//
// The microvm tier over the runner's wire, with the real QEMU and a real kernel; emulated where KVM does not
// work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "model/machine.h"
#include "support/runner_world.h"

namespace atl::runner_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr auto kMicrovmBit = 1u << static_cast<unsigned>(model::Tier::kMicrovm);
constexpr auto kMicrovmIndex = static_cast<std::size_t>(model::Tier::kMicrovm);

// The machine image of this run, made once; empty, and why, where it cannot be made.
struct MachineImage {
  std::string path, why;
};
const MachineImage& machine_image() {
  static const MachineImage made = [] {
    MachineImage out;
    std::string data = fmt::format("/tmp/atoll-machine-{}", ::getpid());
    std::filesystem::create_directories(data);
    std::string command = fmt::format("{} machine --data-dir {} --kernel-tree {} --qemu-tree {} 2>&1",
                                      ATOLL_TEMPLATE_PROGRAM, data, ATOLL_SETUP_KERNEL,
                                      ::access(ATOLL_SETUP_QEMU "/usr", F_OK) == 0 ? ATOLL_SETUP_QEMU : "/");
    FILE* pipe = ::popen(command.c_str(), "r");
    char text[512];
    while (::fgets(text, sizeof text, pipe) != nullptr) out.why += text;
    if (::pclose(pipe) == 0)
      out.path = fmt::format("{}/{}/{}", data, model::kMachineFolder, model::kMachineImage);
    return out;
  }();
  return made;
}

class MicrovmTest : public testing::Test {
 protected:
  static void TearDownTestSuite() {
    if (!machine_image().path.empty())
      std::filesystem::remove_all(std::filesystem::path(machine_image().path).parent_path().parent_path());
  }
  void SetUp() override {
    std::string obstacle = World::obstacle();
    if (obstacle.empty() && machine_image().path.empty())
      obstacle = "needs QEMU and a kernel (tools/setup): " + machine_image().why;
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    world_.emplace();
  }
  void give_image() {
    std::filesystem::create_directories(world_->path("data/machine"));
    std::filesystem::copy_file(machine_image().path, world_->path("data/machine/machine-1.erofs"));
  }
  // The first start boots a guest to see that it can, which takes a while.
  void start(const std::vector<std::string>& flags = {"--microvm-emulation"}) {
    bool answers = world_->start({}, flags);
    for (int i = 0; i < 2 && !answers; ++i)
      answers = soon([this] { return WireClient(world_->socket()).open(); });
    ASSERT_TRUE(answers) << world_->log();
    client_.emplace(world_->socket());
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
  bool gone(char letter) {
    return soon([&] { return world_->leftovers(World::id(letter)).empty(); });
  }

  std::optional<World> world_;
  std::optional<WireClient> client_;
};

TEST_F(MicrovmTest, WithoutAMachineImageTheTierIsRefusedWithWhatToDo) {
  start();
  EXPECT_FALSE(hello().tiers & kMicrovmBit);
  EXPECT_THAT(hello().obstacle[kMicrovmIndex].str(), HasSubstr("atoll-template machine"));
  auto reply = World::start_sandbox(*client_, request('a'));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.word.str(), "isolation_unavailable");
}

TEST_F(MicrovmTest, AMachineAnswersAndLeavesNothing) {
  give_image();
  start();
  wire::HelloReply host = hello();
  ASSERT_TRUE(host.tiers & kMicrovmBit)
      << host.obstacle[kMicrovmIndex].str() << sys::read_file(world_->path("run/microvm.log")).value_or("");
  wire::StartReply reply = started(request('a'));
  std::string link = reply.interface.str();
  EXPECT_THAT(World::shell(link, "cat /proc/version"), HasSubstr("-amd64"));
  EXPECT_EQ(World::shell(link, "hostname"), World::id('a') + "\n");
  EXPECT_EQ(World::shell(link, "cat /etc/hostname"), World::id('a') + "\n");
  auto stopped = World::stop_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->status.ok, 1) << stopped->status.message.str();
  EXPECT_EQ(stopped->was_running, 1);
  EXPECT_NE(::kill(static_cast<pid_t>(reply.pid), 0), 0);
  EXPECT_TRUE(gone('a')) << testing::PrintToString(world_->leftovers(World::id('a')));
}

}  // namespace
}  // namespace atl::runner_test
