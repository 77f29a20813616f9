// SPDX-License-Identifier: Apache-2.0
//
// Copies of disks in the gvisor tier: what the guest's kernel was given to write is in them.
#include <gmock/gmock.h>

#include "support/gvisor_fixture.h"

namespace atl::runner_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kSnapshot[] = "s0000000000000000001";

class GvisorSnapshotTest : public GvisorTest {
 protected:
  std::string taken(char letter) {
    wire::SnapshotRequest request{};
    request.sandbox.set(World::id(letter));
    request.snapshot.set(kSnapshot);
    client_->send(request, wire::Type::kSnapshot);
    auto reply = client_->receive<wire::SnapshotReply>(wire::Type::kSnapshotReply);
    if (!reply) return "no reply";
    return reply->status.ok == 1 ? "ok" : reply->status.word.str() + ": " + reply->status.message.str();
  }
  void drop() {
    wire::SnapshotRef ref{};
    ref.snapshot.set(kSnapshot);
    client_->send(ref, wire::Type::kDropSnapshot);
    auto reply = client_->receive<wire::Done>(wire::Type::kDone);
    EXPECT_TRUE(reply && reply->status.ok == 1);
  }
  // The link of a new sandbox on the copy.
  std::string child(char letter) {
    wire::StartRequest wanted = request(letter);
    wanted.snapshot.set(kSnapshot);
    return started(wanted).interface.str();
  }
};

TEST_F(GvisorSnapshotTest, AChildHasWhatWasWrittenAndNotSynced) {
  start();
  std::string parent = link('a');
  std::string sum =
      World::shell(parent,
                   "echo kept >/kept; mkdir /d; head -c 8000000 /dev/urandom >/d/big; rm -f /bin/vi; "
                   "sleep 1000 >/dev/null 2>&1 & sha256sum /d/big");
  ASSERT_THAT(sum, HasSubstr("/d/big"));
  ASSERT_EQ(taken('a'), "ok") << world_->log();
  std::string link = child('b');
  EXPECT_EQ(World::shell(link, "sha256sum /d/big"), sum);
  EXPECT_EQ(World::shell(link, "cat /kept; hostname; ls /bin/vi 2>/dev/null"),
            "kept\n" + World::id('b') + "\n");
  EXPECT_THAT(World::shell(link, "cat /etc/hostname"), StartsWith(World::id('b')));
  EXPECT_EQ(World::shell(parent, "sha256sum /d/big; ps | grep -c 'sleep 100[0]'"), sum + "1\n");
  EXPECT_EQ(World::shell(link, "echo mine >/kept; cat /kept"), "mine\n");
  EXPECT_EQ(World::shell(parent, "cat /kept"), "kept\n");
}

TEST_F(GvisorSnapshotTest, IsOfOneMoment) {
  start();
  std::string parent = link('a');
  // /x is always written before /y.
  World::shell(parent,
               "(i=0; while true; do i=$((i+1)); echo $i >/x.new; cat /x.new >/x; cat /x.new >/y; done) "
               ">/dev/null 2>&1 </dev/null &");
  for (char letter : {'b', 'c', 'd'}) {
    ASSERT_EQ(taken('a'), "ok") << world_->log();
    std::string difference =
        World::shell(child(letter), "test -s /x || exit; test -s /y || exit; echo $(($(cat /x)-$(cat /y)))");
    EXPECT_THAT(difference, AnyOf("0\n", "1\n", "")) << letter;
    drop();
    World::stop_sandbox(*client_, World::id(letter));
  }
}

TEST_F(GvisorSnapshotTest, ACopyIsForItsTierOnly) {
  start();
  link('a');
  ASSERT_EQ(taken('a'), "ok") << world_->log();
  wire::StartRequest wanted = World::request(World::id('b'));
  wanted.snapshot.set(kSnapshot);
  auto reply = World::start_sandbox(*client_, wanted);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status.word.str(), "snapshot_mismatch");
}

}  // namespace
}  // namespace atl::runner_test
