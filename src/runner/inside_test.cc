// SPDX-License-Identifier: Apache-2.0
//
// What a sandbox looks like from inside, and what it may not do. The verdict is the kernel's answer to real
// attempts; tests/escape judges the same from outside, against weakened controls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <map>

#include "runner/names.h"
#include "support/runner_fixture.h"

namespace atl::runner_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class InsideTest : public RunnerFixture {
 protected:
  void SetUp() override {
    RunnerFixture::SetUp();
    if (world_) RunnerFixture::start();
  }
  void start(wire::StartRequest request = World::request(World::id('a'))) {
    auto reply = World::start_sandbox(*client_, request);
    ASSERT_TRUE(reply);
    ASSERT_EQ(reply->status.ok, 1) << reply->status.message.str();
    reply_ = *reply;
  }
  std::string sh(const std::string& command) { return World::shell(reply_.interface.str(), command); }
  std::string host_proc(const std::string& file) {
    return sys::read_file(fmt::format("/proc/{}/{}", reply_.pid, file)).value_or("");
  }

  wire::StartReply reply_{};
};

TEST_F(InsideTest, IdsAreShiftedAndNeverTheHostsRoot) {
  start();
  std::uint32_t base = runner::uid_base(reply_.slot);
  EXPECT_EQ(sh("id -u"), "0\n");
  EXPECT_THAT(host_proc("status"), HasSubstr(fmt::format("Uid:\t{0}\t{0}\t{0}\t{0}\n", base)));
  EXPECT_THAT(host_proc("status"), HasSubstr(fmt::format("Gid:\t{0}\t{0}\t{0}\t{0}\n", base)));
  EXPECT_THAT(host_proc("status"), HasSubstr("Groups:\t \n"));
  std::string map = host_proc("uid_map");
  EXPECT_EQ(map, fmt::format("{:>10} {:>10} {:>10}\n", 0, base, 65536));
}

TEST_F(InsideTest, HasOnlyTheCapabilitiesThatWorkInsideNeeds) {
  start();
  std::string status = host_proc("status");
  // The guest daemon's own, with the guards that it takes from all that it starts (sys/label_guard.h).
  EXPECT_THAT(status, HasSubstr("CapInh:\t0000003c00100200\n"));
  EXPECT_THAT(status, HasSubstr("CapPrm:\t0000003ca01407fb\n"));
  EXPECT_THAT(status, HasSubstr("CapEff:\t0000003ca01407fb\n"));
  EXPECT_THAT(status, HasSubstr("CapBnd:\t00000000a00405fb\n"));
  EXPECT_THAT(status, HasSubstr("CapAmb:\t0000000000000000\n"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2\n"));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t0\n"));  // sudo must work; docs/decisions/0012
}

TEST_F(InsideTest, EveryNamespaceIsItsOwn) {
  start();
  for (const char* kind : {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
    std::error_code error;
    auto own = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", reply_.pid, kind), error);
    auto ours = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", world_->pid(), kind), error);
    EXPECT_NE(own, ours) << kind;
  }
  EXPECT_EQ(sh("hostname"), World::id('a') + "\n");
  EXPECT_THAT(sh("cat /proc/self/cgroup"), Not(HasSubstr(world_->name())));
}

// A copy of its own group, for labels of commands: nothing is above it.
bool is_detached_group(const std::string& path) {
  struct statfs system{};
  struct stat here{}, above{};
  return ::statfs(path.c_str(), &system) == 0 && system.f_type == CGROUP2_SUPER_MAGIC &&
         ::stat((path + "/.").c_str(), &here) == 0 && ::stat((path + "/..").c_str(), &above) == 0 &&
         here.st_ino == above.st_ino;
}

TEST_F(InsideTest, HoldsNoDescriptorOfTheHost) {
  start();
  std::map<std::string, std::string> targets;
  auto look = [&] {
    targets.clear();
    for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", reply_.pid))) {
      std::error_code closed;
      targets[entry.path()] = std::filesystem::read_symlink(entry.path(), closed).string();
    }
    bool group =
        std::any_of(targets.begin(), targets.end(), [](const auto& one) { return one.second == "/"; });
    return targets.size() == (group ? 9 : 8);  // the pipe with what it starts from is closed once it was read
  };
  EXPECT_TRUE(soon(look)) << targets.size();
  for (const auto& [path, target] : targets) {
    bool expected = target == "/dev/null" || target.starts_with("pipe:") || target.starts_with("socket:") ||
                    target.find(World::id('a') + "/memory.") != std::string::npos ||
                    target.find(World::id('a') + "/cpuacct.usage") != std::string::npos ||
                    target.find(World::id('a') + "/cpu.stat") != std::string::npos ||
                    (target == "/" && is_detached_group(path));
    EXPECT_TRUE(expected) << target;
  }
}

TEST_F(InsideTest, EnvironmentAndMaskAreClean) {
  start();
  EXPECT_THAT(host_proc("environ"), IsEmpty());
  EXPECT_THAT(host_proc("status"), HasSubstr("Umask:\t0022\n"));
  EXPECT_THAT(host_proc("status"), HasSubstr("SigBlk:\t0000000000000000\n"));
  EXPECT_THAT(host_proc("limits"), HasSubstr("Max core file size        0                    0 "));
}

TEST_F(InsideTest, MountsAndDevicesAreOutOfReach) {
  start();
  EXPECT_THAT(sh("mount -t tmpfs none /tmp"), HasSubstr("permission denied"));
  EXPECT_THAT(sh("mount -o remount,rw /proc/sys"), HasSubstr("permission denied"));
  EXPECT_THAT(sh("umount /proc/keys"), HasSubstr("not permitted"));
  EXPECT_THAT(sh("mknod /tmp/disk b 7 0"), HasSubstr("denied"));
  EXPECT_THAT(sh("mknod /tmp/memory c 1 1"), HasSubstr("denied"));
  EXPECT_THAT(sh("unshare -r true"), HasSubstr("not permitted"));
  EXPECT_THAT(sh("touch /dev/x"), HasSubstr("Read-only"));
  EXPECT_THAT(sh("touch /sys/x"), HasSubstr("Read-only"));
  EXPECT_EQ(sh("ls /dev | tr '\\n' ' '"),
            "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ");
  EXPECT_EQ(sh("echo x > /dev/null && head -c 4 /dev/zero | wc -c"), "4\n");
}

TEST_F(InsideTest, HostSettingsAreReadOnly) {
  start();
  std::string before = sys::read_file("/proc/sys/kernel/core_pattern").value_or("");
  EXPECT_THAT(sh("echo '|/x' > /proc/sys/kernel/core_pattern"), HasSubstr("Read-only"));
  EXPECT_THAT(sh("echo 1000 > /proc/sys/user/max_user_namespaces"), HasSubstr("Read-only"));
  EXPECT_EQ(sh("cat /proc/sys/user/max_user_namespaces"), "0\n");
  EXPECT_THAT(sh("echo b > /proc/sysrq-trigger"), Not(IsEmpty()));
  EXPECT_EQ(sys::read_file("/proc/sys/kernel/core_pattern").value_or(""), before);
}

TEST_F(InsideTest, FactsOfTheHostAreMasked) {
  start();
  for (const char* file : {"cmdline", "keys", "key-users", "interrupts", "diskstats", "zoneinfo"}) {
    EXPECT_THAT(sh(fmt::format("cat /proc/{}", file)), IsEmpty()) << file;
    EXPECT_THAT(sh(fmt::format("echo x > /proc/{}", file)), HasSubstr("Read-only")) << file;
  }
  EXPECT_THAT(sh("cat /proc/timer_list /proc/kpagecount"), HasSubstr("denied"));
  EXPECT_THAT(sh("ls /proc/pressure /proc/acpi 2>&1 | grep -v :"), testing::AnyOf("", "\n"));
}

TEST_F(InsideTest, AddressesAreTheSameInEverySandbox) {
  start();
  EXPECT_THAT(sh("ip -o -4 addr show eth0"), HasSubstr("169.254.0.21/32"));
  EXPECT_THAT(sh("ip route"), HasSubstr("default via 169.254.0.22 dev eth0"));
  EXPECT_THAT(sh("cat /etc/hosts"), HasSubstr(World::id('a')));
  EXPECT_THAT(sh("cat /etc/resolv.conf"), StartsWith("nameserver "));
}

TEST_F(InsideTest, UsersInsideCanBeChanged) {
  start();
  EXPECT_EQ(sh("su user -c 'id -u'"), "1000\n");
  EXPECT_EQ(sh("touch /tmp/f && chown 1000:1000 /tmp/f && stat -c %u /tmp/f"), "1000\n");
  EXPECT_EQ(sh("chmod 4755 /tmp/f && stat -c %a /tmp/f"), "4755\n");
}

TEST_F(InsideTest, FilesOfTheTemplateBelongToRootInsideAndCanBeReplaced) {
  start();
  EXPECT_EQ(sh("stat -c %u:%g /bin/busybox"), "0:0\n");
  EXPECT_EQ(sh("rm /bin/seq && echo new > /bin/seq && cat /bin/seq"), "new\n");
  EXPECT_EQ(sh("stat -c %a /tmp"), "1777\n");
}

TEST_F(InsideTest, HostileTemplateCannotMisdirectTheSetUp) {
  wire::StartRequest request = World::request(World::id('a'));
  request.build.set(kHostileBuild);
  start(request);
  EXPECT_EQ(sh("stat -c %F /proc /dev /sys /etc /tmp"),
            "directory\ndirectory\ndirectory\ndirectory\ndirectory\n");
  EXPECT_EQ(sh("cat /etc/hostname"), World::id('a') + "\n");
  EXPECT_THAT(sh("cat /proc/1/comm"), Not(IsEmpty()));
  EXPECT_THAT(sys::list_directory(world_->path("victim")).value_or({"missing"}), IsEmpty());
}

TEST_F(InsideTest, DiskIsBoundedInBytesAndFiles) {
  start();
  EXPECT_THAT(sh("dd if=/dev/zero of=/big bs=1M count=100 2>&1"), HasSubstr("No space left"));
  EXPECT_EQ(sh("rm /big; echo fits > /small; cat /small"), "fits\n");
  // 64 MiB have 4096 inodes.
  EXPECT_THAT(sh("mkdir /many; for i in $(seq 5000); do : > /many/$i || break; done 2>&1"),
              HasSubstr("No space left"));
}

TEST_F(InsideTest, MemoryLimitEndsTheProcessAndIsCounted) {
  start();
  // The shell dies, not PID 1: tail of an endless line without a newline holds it all in memory.
  sh("head -c 400m /dev/zero | grep x >/dev/null; true");
  wire::SandboxRef ref{};
  ref.sandbox.set(World::id('a'));
  client_->send(ref, wire::Type::kStats);
  auto stats = client_->receive<wire::StatsReply>(wire::Type::kStatsReply);
  ASSERT_TRUE(stats);
  EXPECT_GE(stats->oom_kills, 1u);
  EXPECT_EQ(sh("echo alive"), "alive\n");
  EXPECT_GE(World::stop_sandbox(*client_, World::id('a'))->oom_kills, 1u);
}

TEST_F(InsideTest, ProcessLimitHolds) {
  start();
  // The sleepers must not hold the connection. At the limit only what the shell itself can do still works.
  std::string output =
      sh("(for i in $(seq 100); do sleep 30 & done) < /dev/null > /tmp/out 2>&1; "
         "while read line; do echo $line; done < /tmp/out");
  EXPECT_THAT(output, HasSubstr("fork"));
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
}

TEST_F(InsideTest, StatsTellTheTruth) {
  start();
  sh("dd if=/dev/zero of=/data bs=1M count=20 2>/dev/null; sync; i=0; while test $i -lt 20000; do "
     "i=$((i+1)); done");
  wire::SandboxRef ref{};
  ref.sandbox.set(World::id('a'));
  client_->send(ref, wire::Type::kStats);
  auto stats = client_->receive<wire::StatsReply>(wire::Type::kStatsReply);
  ASSERT_TRUE(stats && stats->status.ok == 1) << stats->status.message.str();
  EXPECT_GT(stats->cpu_us, 1000u);
  EXPECT_EQ(stats->memory_limit, 128ull << 20);
  EXPECT_GT(stats->memory_used, 0u);
  EXPECT_GE(stats->memory_cache, 20ull << 20);
  EXPECT_GE(stats->disk_used, 20ull << 20);
  EXPECT_GT(stats->disk_total, 50ull << 20);
  EXPECT_LE(stats->disk_total, 64ull << 20);
  EXPECT_GE(stats->processes, 1u);
}

TEST_F(InsideTest, CpuTimeOfManyIsToldAtOnce) {
  start();
  sh("i=0; while test $i -lt 20000; do i=$((i+1)); done");
  wire::UsageRequest request{};
  request.count = 3;
  request.sandbox[0].set(World::id('b'));
  request.sandbox[1].set(World::id('a'));
  request.sandbox[2].set("../../cgroup");
  client_->send(request, wire::Type::kUsage);
  auto usage = client_->receive<wire::UsageReply>(wire::Type::kUsageReply);
  ASSERT_TRUE(usage && usage->status.ok == 1);
  EXPECT_EQ(usage->cpu_us[0], wire::kUsageUnknown);
  EXPECT_EQ(usage->cpu_us[2], wire::kUsageUnknown);
  wire::SandboxRef ref{};
  ref.sandbox.set(World::id('a'));
  client_->send(ref, wire::Type::kStats);
  auto stats = client_->receive<wire::StatsReply>(wire::Type::kStatsReply);
  ASSERT_TRUE(stats);
  EXPECT_GT(usage->cpu_us[1], 1000u);
  EXPECT_LE(usage->cpu_us[1], stats->cpu_us) << "the later look";
  request.count = wire::kUsageBatch + 1;
  client_->send(request, wire::Type::kUsage);
  usage = client_->receive<wire::UsageReply>(wire::Type::kUsageReply);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->status.ok, 0);
}

TEST_F(InsideTest, GuestDaemonsProgramCannotBeChanged) {
  start();
  EXPECT_THAT(sh("echo x > /proc/1/exe"), Not(IsEmpty()));
  EXPECT_EQ(sh("echo alive"), "alive\n");
}

}  // namespace
}  // namespace atl::runner_test
