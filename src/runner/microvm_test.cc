// SPDX-License-Identifier: Apache-2.0
//
// The microvm tier over the runner's wire, with the real QEMU and a real kernel; emulated where KVM does not
// work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/microvm_fixture.h"

namespace atl::runner_test {
namespace {

using testing::HasSubstr;
using testing::Not;

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
  // A size that no `microvm` machine of QEMU boots with.
  wire::StartRequest wanted = request('a');
  wanted.memory_bytes = std::uint64_t{2} << 30;
  wire::StartReply reply = started(wanted);
  std::string link = reply.interface.str();
  EXPECT_THAT(World::shell(link, "cat /proc/version"), HasSubstr("-amd64"));
  EXPECT_EQ(World::shell(link, "hostname"), World::id('a') + "\n");
  EXPECT_EQ(World::shell(link, "cat /etc/hostname"), World::id('a') + "\n");
  auto stopped = World::stop_sandbox(*client_, World::id('a'));
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->status.ok, 1) << stopped->status.message.str();
  EXPECT_EQ(stopped->was_running, 1);
  // Its launcher takes the status of the ended process a moment later.
  EXPECT_TRUE(soon([&] { return ::kill(static_cast<pid_t>(reply.pid), 0) != 0; }));
  EXPECT_TRUE(gone('a')) << testing::PrintToString(world_->leftovers(World::id('a')));
}

TEST_F(MicrovmTest, AnImageWithoutItsPartsIsRefusedWithWhatIsMissing) {
  std::string empty = world_->path("empty");
  std::filesystem::create_directories(empty);
  MachineImage no_kernel = make_image(world_->path("data"), empty, qemu_tree());
  EXPECT_EQ(no_kernel.path, "");
  EXPECT_THAT(no_kernel.said, HasSubstr("there is no kernel in"));
  MachineImage no_qemu = make_image(world_->path("data"), ATOLL_SETUP_KERNEL, empty);
  EXPECT_EQ(no_qemu.path, "");
  EXPECT_THAT(no_qemu.said, HasSubstr("install qemu-system-x86"));
  EXPECT_FALSE(std::filesystem::exists(world_->path("data/machine/machine-3.erofs")));
}

// Of the whole group, which is one process.
TEST_F(MicrovmTest, QemuHasNoRightOnTheHost) {
  give_image();
  start();
  wire::StartReply reply = started(request('a'));
  std::string status = sys::read_file(fmt::format("/proc/{}/status", reply.pid)).value_or("");
  unsigned uid = 0;
  ASSERT_NE(status.find("\nUid:"), std::string::npos) << status;
  std::sscanf(status.c_str() + status.find("\nUid:"), "\nUid:\t%u", &uid);
  EXPECT_EQ(uid, 0x7000'0000 + reply.slot * 65536 + 1);
  for (const char* line : {"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000",
                           "CapBnd:\t0000000000000000", "Seccomp:\t2", "NSpid:"}) {
    EXPECT_THAT(status, HasSubstr(line));
  }
  std::string root = fmt::format("/proc/{}/root", reply.pid);
  EXPECT_THAT(
      sys::list_directory(root).value_or({}),
      testing::UnorderedElementsAre("dev", "proc", "sys", "usr", "lib", "lib64", "vmlinuz", "initrd"));
  EXPECT_THAT(sys::list_directory(root + "/dev").value_or({}), testing::IsSupersetOf({"null", "urandom"}));
  std::string group;
  for (const std::string& top : World::hierarchies()) {
    group += sys::read_file(top + "/" + world_->name() + "/" + World::id('a') + "/cgroup.procs").value_or("");
  }
  EXPECT_THAT(group, HasSubstr(std::to_string(reply.pid)));
  // Its memory's file is the greatest that it has.
  std::string limits = sys::read_file(fmt::format("/proc/{}/limits", reply.pid)).value_or("");
  EXPECT_THAT(limits, testing::ContainsRegex("Max file size +402653184 +402653184 "));
  EXPECT_GE(World::keys_of(0x7000'0000 + reply.slot * 65536), 1u) << "the session keyring is the launcher's";
}

TEST_F(MicrovmTest, GuestsCannotRunMachinesOfTheirOwn) {
  give_image();
  start();
  launch('a');
  EXPECT_THAT(shell('a', "cat /proc/cpuinfo"), HasSubstr(" fpu "));
  EXPECT_EQ(shell('a', "grep -w -c -e vmx -e svm /proc/cpuinfo"), "0\n");
}

// A QEMU that was taken over holds the template open, so it can lock all of it for reading.
TEST_F(MicrovmTest, NobodyIsLockedOutOfASharedTemplate) {
  give_image();
  start();
  std::string path = fmt::format("{}/{}/root.erofs", world_->path("data/templates"), kBuild);
  sys::Fd held = std::move(sys::open_file(path, O_RDONLY).value());
  struct flock all{};
  all.l_type = F_RDLCK;
  all.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(held.get(), F_OFD_SETLK, &all), 0);
  launch('a');
  EXPECT_EQ(shell('a', "echo here"), "here\n");
}

TEST_F(MicrovmTest, LimitsHoldAndTheSandboxOutlivesThem) {
  give_image();
  start();
  launch('a');
  EXPECT_THAT(shell('a', "dd if=/dev/zero of=/tmp/fill bs=1M count=100 2>&1; rm /tmp/fill"),
              HasSubstr("No space left on device"));
  // More processes than the 64 that it may have.
  EXPECT_THAT(shell('a', "for i in $(seq 80); do sleep 5 & done 2>&1; true"), HasSubstr("an't fork"));
  EXPECT_THAT(shell('a', "tail /dev/zero; echo status $?"), HasSubstr("status 137"));
  EXPECT_EQ(shell('a', "echo here"), "here\n");
  wire::SandboxRef ref{};
  ref.sandbox.set(World::id('a'));
  client_->send(ref, wire::Type::kStats);
  auto stats = client_->receive<wire::StatsReply>(wire::Type::kStatsReply);
  ASSERT_TRUE(stats && stats->status.ok == 1) << (stats ? stats->status.message.str() : "");
  EXPECT_EQ(stats->disk_total, 64ull << 20);
  EXPECT_GT(stats->disk_used, 0u);
  wire::StartRequest little = request('b');
  little.memory_bytes = 64ull << 20;
  auto refused = World::start_sandbox(*client_, little);
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->status.message.str(), HasSubstr("at least 128 MiB"));
}

TEST_F(MicrovmTest, ReachesTheInternetAndNothingElse) {
  give_image();
  start();
  launch('a');
  auto ask = [&](const std::string& address) {
    return shell('a', fmt::format("echo | nc -w 3 {} {} 2>&1", address, kSinkPort));
  };
  EXPECT_THAT(shell('a', "ip addr"), HasSubstr("169.254.0.21"));
  EXPECT_THAT(ask("9.9.9.9"), HasSubstr("internet\n"));
  for (const char* address : {"169.254.169.254", "10.1.1.1", "169.254.0.22", "203.0.113.2"}) {
    std::string heard = ask(address);
    EXPECT_THAT(heard, Not(testing::AnyOf(HasSubstr("internet\n"), HasSubstr("host\n")))) << address;
  }
  wire::NetworkRequest closed{};
  closed.sandbox.set(World::id('a'));
  client_->send(closed, wire::Type::kNetwork);
  auto done = client_->receive<wire::Done>(wire::Type::kDone);
  ASSERT_TRUE(done && done->status.ok == 1);
  EXPECT_THAT(ask("9.9.9.9"), Not(HasSubstr("internet\n")));
}

TEST_F(MicrovmTest, RestsWithItsMemoryInFilesAndOutlivesItsRunner) {
  give_image();
  start();
  launch('a');
  shell('a', "echo mark > /dev/shm/mark; echo text > /tmp/file");
  ASSERT_EQ(pause('a', World::Memory::kKept), "") << world_->log();
  // Nothing runs, and nothing is held but files.
  EXPECT_EQ(sys::list_directory(world_->path("run/sandboxes")).value_or({"?"}), std::vector<std::string>());
  EXPECT_EQ(sys::list_directory(world_->path("run/machines")).value_or({"?"}), std::vector<std::string>());
  EXPECT_TRUE(std::filesystem::exists(world_->path("data/memory/" + World::id('a') + "/manifest")));
  world_->kill();
  start();
  EXPECT_EQ(World::list(*client_)[World::id('a')].rest, static_cast<std::uint8_t>(wire::Rest::kSaved));
  ASSERT_EQ(resume('a'), "");
  EXPECT_EQ(shell('a', "cat /dev/shm/mark"), "mark\n");
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
}

// What is the same in all of them is what nobody could tell them apart by.
TEST_F(MicrovmTest, StartsAreCopiesOfAPreparedMachineWithNamesAndRandomNumbersOfTheirOwn) {
  give_image();
  start();
  std::set<std::string> seen;
  for (char letter : {'a', 'b', 'c'}) {
    wire::StartReply reply = started(request(letter));
    links_[letter] = reply.interface.str();
    std::string arguments = sys::read_file(fmt::format("/proc/{}/cmdline", reply.pid)).value_or("");
    EXPECT_EQ(arguments.find("-incoming") != arguments.npos, letter != 'a');
    EXPECT_FALSE(holds_prepared_memory(reply.pid)) << letter << " could change what others begin as";
    EXPECT_EQ(shell(letter, "hostname; cat /etc/hostname"), fmt::format("{0}\n{0}\n", World::id(letter)));
    for (const char* command : {"head -c 16 /dev/urandom | od -An -tx1", "cat /etc/machine-id",
                                "cat /proc/sys/kernel/random/boot_id"}) {
      std::string said = shell(letter, command);
      EXPECT_GT(said.size(), 16u) << command;
      EXPECT_TRUE(seen.insert(said).second) << letter << ": " << command << ": " << said;
    }
    EXPECT_EQ(shell(letter, "cat /only 2>/dev/null; echo x > /only; echo done"), "done\n");
    EXPECT_NEAR(std::atof(shell(letter, "date +%s").c_str()), static_cast<double>(::time(nullptr)), 3);
  }
}

TEST_F(MicrovmTest, ChildrenGoOnWhereAMemoryWasStored) {
  give_image();
  start();
  wire::StartReply parent = started(request('a'));
  links_['a'] = parent.interface.str();
  shell('a', "echo mark > /dev/shm/mark; echo text > /etc/text");
  std::string taken = snapshot('a', kSnapshot, true);
  ASSERT_EQ(taken, "") << world_->log();
  for (const char* name : {"memory", "shared"}) {
    std::string file = world_->path(fmt::format("data/snapshots/{}/memory/{}", kSnapshot, name));
    EXPECT_TRUE(std::filesystem::exists(file)) << name;
    EXPECT_FALSE(could_write(parent.pid, file)) << "could change what children begin as: " << name;
  }
  shell('a', "echo later > /dev/shm/mark; echo later > /etc/text");
  std::set<std::string> seen;
  for (char letter : {'b', 'c'}) {
    wire::StartRequest child = request(letter);
    child.snapshot.set(kSnapshot);
    child.memory = 1;
    links_[letter] = started(child).interface.str();
    ASSERT_NE(links_[letter], "");
    EXPECT_EQ(shell(letter, "cat /dev/shm/mark /etc/text"), "mark\ntext\n");
    EXPECT_EQ(shell(letter, "hostname; cat /etc/hostname"), fmt::format("{0}\n{0}\n", World::id(letter)));
    EXPECT_TRUE(seen.insert(shell(letter, "head -c 16 /dev/urandom | od -An -tx1")).second);
    EXPECT_TRUE(seen.insert(shell(letter, "cat /etc/machine-id")).second);
  }
  EXPECT_EQ(shell('a', "cat /dev/shm/mark /etc/text; hostname"), "later\nlater\n" + World::id('a') + "\n");
  wire::StartRequest larger = request('d');
  larger.snapshot.set(kSnapshot);
  larger.memory = 1;
  larger.memory_bytes *= 2;
  auto refused = World::start_sandbox(*client_, larger);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status.word.str(), "snapshot_mismatch");
}

TEST_F(MicrovmTest, ACopyOfItsDiskIsWhole) {
  give_image();
  start();
  launch('a');
  shell('a', "echo text > /etc/text");
  ASSERT_EQ(snapshot('a', kSnapshot, false), "") << world_->log();
  EXPECT_EQ(shell('a', "cat /etc/text"), "text\n");
  wire::StartRequest child = request('b');
  child.snapshot.set(kSnapshot);
  links_['b'] = started(child).interface.str();
  EXPECT_EQ(shell('b', "cat /etc/text; hostname"), "text\n" + World::id('b') + "\n");
}

TEST_F(MicrovmTest, ADamagedMemoryIsRefusedAndTheDiskIsStillThere) {
  give_image();
  start();
  launch('a');
  shell('a', "echo text > /etc/text");
  // Its own file, and that which it shares.
  for (const char* name : {"memory", "shared"}) {
    ASSERT_EQ(pause('a', World::Memory::kKept), "");
    world_->kill();
    std::string file = world_->path("data/memory/" + World::id('a') + "/" + name);
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4096);
    start();
    EXPECT_EQ(resume('a'), "snapshot_corrupt");
    ASSERT_EQ(pause('a', World::Memory::kLost), "");
    ASSERT_EQ(resume('a'), "");
    EXPECT_EQ(shell('a', "cat /etc/text"), "text\n");
  }
}

// The first machine of its kind too, whose memory is in no file.
TEST_F(MicrovmTest, APauseStoresWhatChangedAndSharesWhatItBeganAs) {
  give_image();
  start();
  for (char letter : {'a', 'b'}) {
    launch(letter);
    shell(letter, fmt::format("echo {} > /dev/shm/mark", letter));
  }
  // What they began as outlives its runner, and the machine that was prepared.
  std::filesystem::create_directories(world_->path("data/origins/" + World::id('z')));
  world_->kill();
  start();
  EXPECT_EQ(sys::list_directory(world_->path("data/origins")).value_or({}).size(), 2u);
  std::filesystem::path prepared = *std::filesystem::directory_iterator(world_->path("data/prepared"));
  for (int round = 0; round < 2; ++round) {
    for (char letter : {'a', 'b'}) {
      ASSERT_EQ(pause(letter, World::Memory::kKept), "") << world_->log();
      std::string folder = world_->path("data/memory/" + World::id(letter));
      if (round == 0) EXPECT_TRUE(std::filesystem::equivalent(folder + "/shared", prepared / "memory"));
      EXPECT_LT(stored_kib(folder + "/memory"), 24u << 10);
      EXPECT_GT(stored_kib(folder + "/shared"), 32u << 10);
    }
    std::filesystem::remove_all(prepared);
    for (char letter : {'a', 'b'}) {
      ASSERT_EQ(resume(letter), "") << world_->log();
      EXPECT_EQ(shell(letter, "cat /dev/shm/mark"), fmt::format("{}\n", letter));
    }
  }
  for (char letter : {'a', 'b'}) EXPECT_EQ(World::stop_sandbox(*client_, World::id(letter))->status.ok, 1);
  EXPECT_THAT(sys::list_directory(world_->path("data/origins")).value_or({"?"}), testing::IsEmpty());
}

// Its QEMU goes on, and may keep open what it has written.
TEST_F(MicrovmTest, AMachineThatChangedMuchIsStoredWholeAndOutOfItsReach) {
  give_image();
  start();
  auto large = [](char letter) {
    wire::StartRequest out = request(letter);
    out.memory_bytes = 256ull << 20;
    return out;
  };
  wire::StartReply reply = started(large('a'));
  links_['a'] = reply.interface.str();
  ASSERT_EQ(shell('a', "head -c 70000000 /dev/zero | tr '\\0' x > /dev/shm/much; tail -c 4 /dev/shm/much"),
            "xxxx");
  ASSERT_EQ(snapshot('a', kSnapshot, true), "") << world_->log();
  std::string folder = world_->path(fmt::format("data/snapshots/{}/memory", kSnapshot));
  EXPECT_FALSE(std::filesystem::exists(folder + "/shared"));
  EXPECT_GT(stored_kib(folder + "/memory"), 68u << 10);
  EXPECT_FALSE(could_write(reply.pid, folder + "/memory"));
  wire::StartRequest child = large('b');
  child.snapshot.set(kSnapshot);
  child.memory = 1;
  links_['b'] = started(child).interface.str();
  EXPECT_EQ(shell('b', "wc -c < /dev/shm/much; tail -c 4 /dev/shm/much"), "70000000\nxxxx");
  // What it changes of that is little again.
  ASSERT_EQ(pause('b', World::Memory::kKept), "") << world_->log();
  EXPECT_TRUE(std::filesystem::equivalent(world_->path("data/memory/" + World::id('b') + "/shared"),
                                          folder + "/memory"));
}

// What was prepared for later creates is of nobody: a sandbox is there afterwards all the same.
TEST_F(MicrovmTest, ADeathWhileAMachineIsPreparedHarmsNothing) {
  give_image();
  start();
  world_->kill();
  ASSERT_TRUE(world_->start("runner.prepared.sealed", {"--microvm-emulation"}))
      << world_->log();
  connect();
  client_->send(request('a'), wire::Type::kStart);
  ASSERT_TRUE(died()) << "the point was never reached";
  start();
  for (char letter : {'a', 'b'}) World::stop_sandbox(*client_, World::id(letter));
  for (char letter : {'b', 'c'}) {
    launch(letter);
    EXPECT_EQ(shell(letter, "echo lives"), "lives\n");
  }
}

// That of the machine that was written out first, which goes on as a sandbox.
TEST_F(MicrovmTest, WhatIsPreparedWasNeverInReachOfItsQemu) {
  give_image();
  start();
  world_->kill();
  ASSERT_TRUE(world_->start("runner.save.stored", {"--microvm-emulation"}))
      << world_->log();
  connect();
  client_->send(request('a'), wire::Type::kStart);
  ASSERT_TRUE(died()) << "the point was never reached";
  std::string file;
  for (const std::string& kind : sys::list_directory(world_->path("data/prepared")).value_or({}))
    file = world_->path("data/prepared/" + kind + "/memory");
  EXPECT_GT(stored_kib(file), 32u << 10) << "it is not stored before the machine goes on";
  pid_t qemu = machine('a');
  ASSERT_GT(qemu, 0);
  EXPECT_FALSE(could_write(qemu, file));
  start();
}

// The reader of its answers is killed while QEMU writes: nobody has called that off.
TEST_F(MicrovmTest, AMachineWhoseMemoryWasNotWrittenToTheEndGoesOn) {
  give_image();
  start();
  launch('a');
  shell('a', "echo mark > /dev/shm/mark");
  std::string whole = world_->path("data/memory/.new-" + World::id('a') + "/whole");
  std::thread killer([&] {
    struct stat info{};
    EXPECT_TRUE(soon([&] { return ::stat(whole.c_str(), &info) == 0 && info.st_size > 0; }));
    for (int reader : readers()) ::kill(reader, SIGKILL);
  });
  std::string paused = pause('a', World::Memory::kKept);
  killer.join();
  EXPECT_EQ(paused, "") << world_->log();
  // It stays in RAM, unless its reader was quicker than us.
  auto rest = static_cast<wire::Rest>(World::list(*client_)[World::id('a')].rest);
  EXPECT_TRUE(rest == wire::Rest::kFrozen || rest == wire::Rest::kSaved) << static_cast<int>(rest);
  ASSERT_EQ(resume('a'), "") << world_->log();
  EXPECT_EQ(shell('a', "cat /dev/shm/mark"), "mark\n");
  ASSERT_EQ(pause('a', World::Memory::kKept), "") << world_->log();
  EXPECT_EQ(World::list(*client_)[World::id('a')].rest, static_cast<std::uint8_t>(wire::Rest::kSaved));
  ASSERT_EQ(resume('a'), "") << world_->log();
  EXPECT_EQ(shell('a', "cat /dev/shm/mark"), "mark\n");
}

// The next runner cannot let it go on: nothing has run, so its memory is still true.
TEST_F(MicrovmTest, WhatDoesNotGoOnAfterItsRunnerDiedRestsAsBefore) {
  give_image();
  start();
  launch('a');
  shell('a', "echo mark > /dev/shm/mark; echo text > /etc/text");
  ASSERT_EQ(pause('a', World::Memory::kKept), "") << world_->log();
  world_->kill();
  ASSERT_TRUE(world_->start("runner.start.after_complete", {"--microvm-emulation"}))
      << world_->log();
  connect();
  EXPECT_EQ(resume('a'), "no answer");
  ASSERT_TRUE(died()) << "the point was never reached";
  ASSERT_TRUE(std::filesystem::remove(world_->path("run/machines/" + World::id('a') + ".qmp")));
  start();
  EXPECT_EQ(World::list(*client_)[World::id('a')].rest, static_cast<std::uint8_t>(wire::Rest::kSaved));
  ASSERT_EQ(resume('a'), "") << world_->log();
  EXPECT_EQ(shell('a', "cat /dev/shm/mark /etc/text"), "mark\ntext\n");
}

// Its names find no room on the copy.
TEST_F(MicrovmTest, AChildOfOneWithAFullDiskGoesOn) {
  give_image();
  start();
  launch('a');
  shell('a', "rm /etc/hostname /etc/hosts /etc/machine-id; echo mark > /dev/shm/mark");
  ASSERT_THAT(shell('a', "dd if=/dev/zero of=/fill bs=64k 2>&1; dd if=/dev/zero of=/rest bs=1 2>&1; sync"),
              HasSubstr("No space left on device"));
  ASSERT_EQ(snapshot('a', kSnapshot, true), "") << world_->log();
  for (bool memory : {true, false}) {
    char letter = memory ? 'b' : 'c';
    wire::StartRequest child = request(letter);
    child.snapshot.set(kSnapshot);
    child.memory = memory ? 1 : 0;
    links_[letter] = started(child).interface.str();
    EXPECT_EQ(shell(letter, "hostname"), World::id(letter) + "\n");
    EXPECT_EQ(shell(letter, "cat /dev/shm/mark 2>/dev/null"), memory ? "mark\n" : "");
  }
}

// Which has a megabyte less than that (runner/microvm/child.h).
TEST_F(MicrovmTest, AMachineOfTwoGigabytesSharesWhatItBeganAs) {
  give_image();
  start();
  wire::StartRequest wanted = request('a');
  wanted.memory_bytes = std::uint64_t{2} << 30;
  ASSERT_NE(started(wanted).interface.str(), "");
  ASSERT_EQ(pause('a', World::Memory::kKept), "") << world_->log();
  EXPECT_TRUE(std::filesystem::exists(world_->path("data/memory/" + World::id('a') + "/shared")));
}

class MicrovmCrashTest : public MicrovmTest, public testing::WithParamInterface<const char*> {};

// Wherever the runner dies, the next one finds the sandbox running or at rest, with all that was in it.
TEST_P(MicrovmCrashTest, LosesNothing) {
  give_image();
  start();
  launch('a');
  shell('a', "echo mark > /dev/shm/mark; echo text > /etc/text");
  world_->kill();
  ASSERT_TRUE(world_->start(GetParam(), {"--microvm-emulation"})) << world_->log();
  connect();
  if (pause('a', World::Memory::kKept) != "no answer") EXPECT_EQ(resume('a'), "no answer");
  ASSERT_TRUE(died()) << GetParam() << " was not reached";
  EXPECT_TRUE(soon([this] { return readers().empty(); })) << "the monitor is not free";
  start();
  auto rest = static_cast<wire::Rest>(World::list(*client_)[World::id('a')].rest);
  EXPECT_TRUE(rest == wire::Rest::kRuns || rest == wire::Rest::kSaved) << static_cast<int>(rest);
  ASSERT_EQ(pause('a', World::Memory::kKept), "") << world_->log();
  ASSERT_EQ(resume('a'), "") << world_->log();
  EXPECT_EQ(shell('a', "cat /dev/shm/mark /etc/text"), "mark\ntext\n");
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
}
INSTANTIATE_TEST_SUITE_P(, MicrovmCrashTest,
                         testing::Values("runner.save.after_record", "runner.save.quiet", "runner.save.asked",
                                         "runner.save.stored", "runner.save.after_save",
                                         "runner.memory.before_manifest", "runner.save.after_manifest",
                                         "runner.save.after_keep", "runner.stop.after_disk",
                                         "runner.start.after_complete", "runner.restore.after_spent",
                                         "runner.restore.after_resume"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_F(MicrovmTest, RestsOnItsDiskWhichThisHostNeverMountsAgain) {
  give_image();
  start();
  launch('a');
  shell('a', "echo kept > /etc/kept; rm -r /sys; ln -s /etc /mnt");
  EXPECT_EQ(shell('a', "@settle"), "settled\n");
  ASSERT_EQ(pause('a', World::Memory::kLost), "");
  ASSERT_EQ(resume('a'), "");
  EXPECT_EQ(shell('a', "cat /etc/kept"), "kept\n");
  EXPECT_EQ(shell('a', "hostname"), World::id('a') + "\n");
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
}

// As when control died after its intent.
TEST_F(MicrovmTest, WhatWasSyncedOutlivesAKernelThatIsCutOff) {
  give_image();
  start();
  launch('a');
  shell('a', "echo synced > /etc/synced; sync; echo y > /etc/unsynced");
  ASSERT_EQ(pause('a', World::Memory::kLost), "");
  sys::Fd image =
      std::move(sys::open_file(world_->path("data/disks/" + World::id('a') + ".img"), O_RDONLY).value());
  std::uint8_t incompatible = 0;  // ext4's s_feature_incompat; 4: the journal must be replayed
  ASSERT_EQ(::pread(image.get(), &incompatible, 1, 1024 + 96), 1);
  EXPECT_EQ(incompatible & 4, 4) << "the disk was settled, or has no journal";
  ASSERT_EQ(resume('a'), "");
  EXPECT_EQ(shell('a', "cat /etc/synced"), "synced\n");
  EXPECT_EQ(shell('a', "touch /etc/after && echo here"), "here\n");
}

TEST_F(MicrovmTest, ABootThatItsRunnerDidNotOutliveIsRepeated) {
  give_image();
  start();
  launch('a');
  shell('a', "echo synced > /etc/synced; sync");
  ASSERT_EQ(pause('a', World::Memory::kLost), "");
  world_->kill();
  ASSERT_TRUE(world_->start("runner.start.after_exec", {"--microvm-emulation"}))
      << world_->log();
  client_.emplace(world_->socket());
  EXPECT_EQ(resume('a'), "no answer");
  ASSERT_TRUE(died()) << "the point was never reached";
  start();
  EXPECT_EQ(World::list(*client_)[World::id('a')].rest, static_cast<std::uint8_t>(wire::Rest::kStored));
  ASSERT_EQ(resume('a'), "");
  EXPECT_EQ(shell('a', "cat /etc/synced"), "synced\n");
}

TEST_F(MicrovmTest, HostileTemplatesAreKeptInside) {
  give_image();
  start();
  wire::StartRequest wanted = request('a');
  wanted.build.set(kHostileBuild);
  links_['a'] = started(wanted).interface.str();
  EXPECT_EQ(shell('a', "echo x > /tmp/y; cat /tmp/y"), "x\n");
  EXPECT_THAT(sys::list_directory(world_->path("victim")).value_or({}), testing::IsEmpty());
}

TEST_F(MicrovmTest, EmulationIsUsedOnlyWhereItIsAllowed) {
  give_image();
  std::filesystem::remove(world_->path("run/microvm.tested"));
  start({});
  wire::HelloReply said = hello();
  if ((said.tiers & kMicrovmBit) != 0) {
    EXPECT_EQ(model::missing_layers(said.features, model::Tier::kMicrovm), 0u);  // KVM works here
    return;
  }
  EXPECT_THAT(said.obstacle[kMicrovmIndex].str(), HasSubstr("emulation is not allowed"));
  EXPECT_EQ(World::start_sandbox(*client_, request('a'))->status.word.str(), "isolation_unavailable");
  world_->kill();
  start({"--microvm-emulation"});
  said = hello();
  EXPECT_TRUE(said.tiers & kMicrovmBit) << said.obstacle[kMicrovmIndex].str();
  EXPECT_EQ(model::missing_layers(said.features, model::Tier::kMicrovm),
            1ull << static_cast<unsigned>(model::Feature::kKvm));
  EXPECT_TRUE(world_->leftovers("iselftestofthemicrovm").empty());
}

class MicrovmFaultTest : public MicrovmTest, public testing::WithParamInterface<const char*> {};

// The self-test passes the same points, so a runner that dies there must leave nothing either.
TEST_P(MicrovmFaultTest, ADeadRunnerLeavesNothing) {
  give_image();
  std::filesystem::remove(world_->path("run/microvm.tested"));
  world_->start(GetParam(), {"--microvm-emulation"});
  ASSERT_TRUE(died()) << "the point was never reached";
  start();
  EXPECT_THAT(World::list(*client_), testing::IsEmpty());
  launch('a');
  EXPECT_EQ(shell('a', "echo here"), "here\n");
  EXPECT_EQ(World::stop_sandbox(*client_, World::id('a'))->status.ok, 1);
  EXPECT_TRUE(gone('a'));
  EXPECT_TRUE(world_->leftovers("iselftestofthemicrovm").empty());
  EXPECT_TRUE(soon([&] { return world_->stray_helpers().empty(); }));
}
INSTANTIATE_TEST_SUITE_P(Points, MicrovmFaultTest,
                         testing::Values("launcher.after_maps", "runner.start.after_clone",
                                         "runner.start.after_exec"));

}  // namespace
}  // namespace atl::runner_test
