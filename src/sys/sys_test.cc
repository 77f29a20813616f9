// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>

#include "sys/cgroup.h"
#include "sys/files.h"
#include "sys/host.h"
#include "sys/label_guard.h"
#include "sys/landlock.h"
#include "sys/process.h"
#include "sys/seqpacket.h"

namespace atl::sys {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-sys-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::string path(const std::string& below) const { return path_ + "/" + below; }
  std::string path_;
};

using Files = Folder;

TEST_F(Files, ReplaceIsWholeOrNothing) {
  EXPECT_TRUE(replace_file(path("a"), "one", 0600).ok());
  EXPECT_TRUE(replace_file(path("a"), "two", 0600).ok());
  EXPECT_EQ(read_file(path("a")).value(), "two");
  EXPECT_THAT(list_directory(path_).value(), ElementsAre("a"));
  EXPECT_FALSE(replace_file(path("missing/a"), "x", 0600).ok());
}

// Root of a sandbox may put a link where its guest daemon is about to write, to something that the daemon has
// open.
TEST_F(Files, ReplaceWritesThroughNoLink) {
  std::ofstream(path("other")) << "mine";
  ASSERT_EQ(::symlink(path("other").c_str(), path("a.tmp").c_str()), 0);
  EXPECT_FALSE(replace_file(path("a"), "theirs", 0600).ok());
  EXPECT_EQ(read_file(path("other")).value(), "mine");
}

TEST_F(Files, ReadingHasALimit) {
  std::ofstream(path("big")) << std::string(1000, 'x');
  EXPECT_EQ(read_file(path("big"), 1000).value().size(), 1000u);
  Result<std::string> refused = read_file(path("big"), 999);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kTooLarge);
  EXPECT_THAT(refused.error().message(), testing::HasSubstr(path("big")));
}

TEST_F(Files, OfAStrangersFolderOnlyAPlainFileIsRead) {
  std::ofstream(path("key")) << "mine";
  EXPECT_EQ(read_file_of(::geteuid(), path("key")).value(), "mine");
  EXPECT_EQ(read_file_of(::geteuid(), path("key"), 3).error().code(), Code::kTooLarge);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_file_of(::geteuid(), path("fifo")).error().code(), Code::kDenied);
  std::filesystem::create_symlink("key", path("link"));
  EXPECT_FALSE(read_file_of(::geteuid(), path("link")).ok());
  std::filesystem::create_hard_link(path("key"), path("second"));
  EXPECT_EQ(read_file_of(::geteuid(), path("second")).error().code(), Code::kDenied);
  std::filesystem::remove(path("second"));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(path("key").c_str(), 1234, 1234), 0);
  EXPECT_EQ(read_file_of(1234, path("key")).value(), "mine");
  EXPECT_EQ(read_file_of(1235, path("key")).error().code(), Code::kDenied);
}

TEST_F(Files, OpenBeneathFollowsNoLinkAndStaysInside) {
  std::filesystem::create_directories(path("root/dir"));
  std::ofstream(path("outside")) << "secret";
  std::ofstream(path("root/dir/file")) << "fine";
  std::filesystem::create_symlink("../outside", path("root/link"));
  std::filesystem::create_symlink("dir", path("root/dirlink"));
  Fd root = std::move(open_file(path("root"), O_RDONLY | O_DIRECTORY)).value();
  EXPECT_TRUE(open_beneath(root.get(), "dir/file", O_RDONLY).ok());
  for (const char* bad : {"link", "dirlink/file", "../outside", "/etc/passwd", "dir/../../outside"}) {
    EXPECT_FALSE(open_beneath(root.get(), bad, O_RDONLY).ok()) << bad;
  }
  EXPECT_FALSE(open_beneath(root.get(), "link", O_WRONLY | O_CREAT, 0600).ok());
}

TEST_F(Files, WritingDoesNotMakeFiles) {
  EXPECT_FALSE(write_file(path("none"), "x").ok());
  EXPECT_THAT(list_directory(path_).value(), IsEmpty());
  EXPECT_THAT(list_directory(path("none")).value(), IsEmpty());  // a missing folder is an empty one
}

TEST(Process, IsNamedByPidAndStartTime) {
  pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  std::uint64_t ticks = start_ticks(child).value();
  EXPECT_TRUE(open_same_process(child, ticks).ok());
  EXPECT_EQ(open_same_process(child, ticks + 1).error().code(), Code::kNotFound);
  Fd pidfd = std::move(open_pidfd(child)).value();
  EXPECT_FALSE(wait_for_end(pidfd.get(), Millis(0)));
  EXPECT_TRUE(signal_process(pidfd.get(), SIGKILL).ok());
  EXPECT_TRUE(wait_for_end(pidfd.get(), Millis(10'000)));
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(open_same_process(child, ticks).error().code(), Code::kNotFound);
  EXPECT_TRUE(signal_process(pidfd.get(), SIGKILL).ok());  // gone counts as signalled
}

TEST_F(Files, MessagesKeepTheirBordersAndCarryDescriptors) {
  auto [a, b] = std::move(seqpacket_pair()).value();
  std::uint64_t first = 1, second = 2;
  Fd file = std::move(open_file(path("x"), O_RDWR | O_CREAT, 0600)).value();
  const int fds[] = {file.get(), a.get()};
  EXPECT_TRUE(send_message(a.get(), bytes_of(first), fds).ok());
  EXPECT_TRUE(send_message(a.get(), bytes_of(second)).ok());
  std::byte buffer[64];
  Result<Received> one = receive_message(b.get(), buffer);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->size, sizeof first);
  ASSERT_EQ(one->fds.size(), 2u);
  EXPECT_NE(::fcntl(one->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(write_all(one->fds[0].get(), "through").ok());
  EXPECT_EQ(read_file(path("x")).value(), "through");
  EXPECT_TRUE(receive_message(b.get(), buffer)->fds.empty());
  std::byte small[4];
  EXPECT_TRUE(send_message(a.get(), bytes_of(first)).ok());
  EXPECT_TRUE(receive_message(b.get(), small)->truncated);
  a.reset();
  file.reset();
  one->fds.clear();
  EXPECT_EQ(receive_message(b.get(), buffer)->size, 0u);  // the end
}

TEST_F(Files, SocketTellsWhoConnected) {
  Fd listener = std::move(seqpacket_listen(path("s"), 0600, ::getgid(), 1)).value();
  Fd client = std::move(seqpacket_connect(path("s"))).value();
  Fd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  Peer peer = peer_of(server.get()).value();
  EXPECT_EQ(peer.uid, ::getuid());
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_FALSE(seqpacket_listen(std::string(200, 'x'), 0600, 0, 1).ok());
}

TEST(Hierarchies, AreFoundInAMountTable) {
  std::vector<Hierarchy> hybrid = find_hierarchies(
      "22 27 0:21 / /proc rw - proc proc rw\n"
      "32 31 0:29 / /cg/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
      "33 31 0:30 / /cg/memory rw shared:7 - cgroup cgroup rw,memory\n"
      "34 31 0:31 / /cg/freezer rw - cgroup cgroup rw,freezer\n"
      "40 31 0:37 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n"
      "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
      "broken line\n");
  ASSERT_EQ(hybrid.size(), 3u);
  EXPECT_EQ(hybrid[0].root, "/cg/cpu,cpuacct");
  EXPECT_THAT(hybrid[0].controllers, UnorderedElementsAre("cpu", "cpuacct"));
  EXPECT_THAT(hybrid[1].controllers, ElementsAre("memory"));
  EXPECT_TRUE(hybrid[2].unified);
  EXPECT_THAT(hybrid[2].controllers, IsEmpty());
}

// A version 2 tree is only files; a folder with the same names shows what is written where.
class FakeVersion2 : public Folder {
 protected:
  void SetUp() override {
    Folder::SetUp();
    std::filesystem::create_directories(path("atoll/box"));
    for (const char* file :
         {"memory.max", "memory.swap.max", "cpu.max", "pids.max", "memory.events", "memory.current",
          "memory.stat", "cpu.stat", "pids.current", "cgroup.events", "cgroup.kill"}) {
      std::ofstream(path(std::string("atoll/box/") + file)) << "";
    }
    Hierarchy hierarchy{path_, {"memory", "cpu", "pids"}, true};
    std::ofstream(path("atoll/cgroup.kill")) << "";
    cgroups_.emplace(CgroupMode::kVersion2, std::vector<Hierarchy>{hierarchy}, "atoll");
  }
  std::string file(const std::string& name) {
    return read_file(path("atoll/box/" + name)).value_or("missing");
  }
  void put(const std::string& name, const std::string& text) {
    std::ofstream(path("atoll/box/" + name)) << text;
  }
  std::optional<Cgroups> cgroups_;
};

TEST_F(FakeVersion2, LimitsAreWrittenInItsWords) {
  Result<CgroupHandles> handles = cgroups_->create("box", {1 << 20, 1500, 77});
  ASSERT_TRUE(handles.ok()) << handles.error().message();
  EXPECT_EQ(file("memory.max"), "1048576");
  EXPECT_EQ(file("memory.swap.max"), "0");
  EXPECT_EQ(file("cpu.max"), "150000 100000");
  EXPECT_EQ(file("pids.max"), "77");
  EXPECT_TRUE(handles->unified);
  EXPECT_THAT(handles->tasks, IsEmpty());
  EXPECT_TRUE(handles->memory_events && handles->memory_usage && handles->memory_stat && handles->cpu_usage);
}

TEST_F(FakeVersion2, UsageIsReadInItsWords) {
  put("cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
  put("memory.current", "5000\n");
  put("memory.stat", "anon 3000\nfile 2000\nfile_mapped 10\n");
  put("memory.max", "max\n");
  put("pids.current", "3\n");
  put("memory.events", "low 0\noom 4\noom_kill 2\noom_group_kill 0\n");
  CgroupUsage usage = cgroups_->usage("box");
  EXPECT_EQ(usage.cpu_us, 1234u);
  EXPECT_EQ(usage.memory_used, 3000u);
  EXPECT_EQ(usage.memory_cache, 2000u);
  EXPECT_EQ(usage.processes, 3u);
  EXPECT_EQ(usage.oom_kills, 2u);
}

TEST_F(FakeVersion2, OnlyThreadsOfTheKernelAreReleased) {
  constexpr char kKernelsOwn[] = "2";  // kthreadd
  if (!is_kernel_thread(2)) GTEST_SKIP() << "process 2 is no thread of the kernel in this pid namespace";
  put("cgroup.procs", fmt::format("{}\n{}\n", ::getpid(), kKernelsOwn));
  std::ofstream(path("cgroup.procs")) << "";
  cgroups_->release_kernel_threads("box");
  EXPECT_EQ(read_file(path("cgroup.procs")).value(), kKernelsOwn);
  std::filesystem::create_directories(path("daemons"));
  std::ofstream(path("daemons/cgroup.procs")) << "";
  cgroups_->release_kernel_threads("box");
  EXPECT_EQ(read_file(path("daemons/cgroup.procs")).value(), kKernelsOwn);
  EXPECT_FALSE(is_kernel_thread(::getpid()));
}

TEST_F(FakeVersion2, KillAndEmptyUseTheLifecycleFiles) {
  EXPECT_TRUE(cgroups_->has_kill());
  cgroups_->kill("box");
  EXPECT_EQ(file("cgroup.kill"), "1");
  put("cgroup.events", "populated 1\nfrozen 0\n");
  EXPECT_FALSE(cgroups_->wait_empty("box", Millis(0)));
  put("cgroup.events", "populated 0\nfrozen 0\n");
  EXPECT_TRUE(cgroups_->wait_empty("box", Millis(0)));
  EXPECT_TRUE(cgroups_->wait_empty("another", Millis(0)));
  EXPECT_THAT(cgroups_->list(), ElementsAre("box"));
}

TEST_F(FakeVersion2, RemovingAGroupInUseFailsAndAMissingOneDoesNot) {
  EXPECT_FALSE(cgroups_->remove("box", Millis(0)).ok());  // a folder with files, as rmdir sees it
  EXPECT_TRUE(cgroups_->remove("another", Millis(0)).ok());
}

TEST_F(Files, LandlockKeepsADaemonToItsPaths) {
  if (landlock_abi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  std::filesystem::create_directories(path("mine"));
  std::filesystem::create_directories(path("shown"));
  std::ofstream(path("shown/file")) << "x";
  std::ofstream(path("other")) << "x";
  pid_t child = ::fork();
  if (child == 0) {
    int bad = 0;
    bad |= landlock_restrict_files({{path("mine"), true}, {path("shown"), false}}).ok() ? 0 : 1;
    bad |= replace_file(path("mine/a"), "x", 0600).ok() ? 0 : 2;
    bad |= read_file(path("shown/file")).ok() ? 0 : 4;
    bad |= replace_file(path("shown/a"), "x", 0600).ok() ? 8 : 0;
    bad |= read_file(path("other")).ok() ? 16 : 0;
    bad |= read_file("/etc/passwd").ok() ? 32 : 0;
    ::_exit(bad);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Host, ReadsWhatTheKernelPrints) {
  EXPECT_EQ(meminfo_bytes("MemTotal:       24583988 kB\nMemAvailable:   100 kB\n", "MemAvailable"), 102400u);
  EXPECT_EQ(meminfo_bytes("MemTotalX: 5 kB\n", "MemTotal"), 0u);
  EXPECT_EQ(meminfo_bytes("", "MemTotal"), 0u);
  EXPECT_EQ(loadavg_processes("0.09 0.03 0.01 2/174 1234\n"), 174u);
  EXPECT_EQ(loadavg_processes("garbage"), 0u);
  EXPECT_EQ(pressure_percent("some avg10=99.00 avg60=0.00 avg300=0.00 total=5\n"
                             "full avg10=41.87 avg60=0.00 avg300=0.00 total=5\n"),
            41u);
  EXPECT_EQ(pressure_percent("some avg10=99.00\n"), 0u);
}

TEST(Host, OfThisMachineIsNotEmpty) {
  auto probe = HostProbe::open("/tmp");
  ASSERT_TRUE(probe.ok());
  HostFacts facts = probe->read();
  EXPECT_GT(facts.memory_total, facts.memory_free);
  EXPECT_GT(facts.memory_free, 0u);
  EXPECT_GE(facts.disk_total, facts.disk_free);
  EXPECT_GT(facts.processes, 0u);
  EXPECT_GT(facts.processes_max, facts.processes);
}

TEST(Labels, HaveGuardsOfWhichNoneHasAllOfAnother) {
  constexpr std::uint32_t kLabels = 15;  // model::kMaxLabels
  for (std::uint32_t one = 1; one <= kLabels; ++one) {
    EXPECT_EQ(std::popcount(guards_of(one)), 3);
    EXPECT_EQ(guards_of(one) & ~all_guards(), 0u);
    for (std::uint32_t other = 1; other <= kLabels; ++other)
      EXPECT_EQ((guards_of(one) & ~guards_of(other)) == 0, one == other);
  }
  EXPECT_EQ(guards_of(0), 0u);
}

}  // namespace
}  // namespace atl::sys
