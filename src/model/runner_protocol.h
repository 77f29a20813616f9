// SPDX-License-Identifier: Apache-2.0
//
// The wire between atoll-control and atoll-runner (proto/runner.md): fixed structs, one per SOCK_SEQPACKET
// message, on a unix socket whose peer the kernel vouches for (SO_PEERCRED, unix(7)). No length is ever taken
// from a message: the type decides the size, and a message of another size closes the connection. Same
// machine, so host byte order.
//
// A request carries an `id` chosen by control; its one reply carries the same id. Replies may come in any
// order. Messages with id 0 from the runner are events.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "model/features.h"
#include "model/sandbox.h"

namespace atl::model::wire {

inline constexpr std::uint32_t kMagic = 0x4c4f5441;  // "ATOL"
inline constexpr std::uint16_t kVersion = 3;

enum class Type : std::uint16_t {
  // requests
  kHello = 1,     // Hello -> HelloReply: versions, tiers in force, capacity
  kStart = 2,     // StartRequest -> StartReply: launch a sandbox from nothing but ready slots and disks
  kStop = 3,      // SandboxRef -> StopReply: kill, wait for the kernel, release everything
  kList = 4,      // Empty -> one ListReply per sandbox, then one with last = 1 and no sandbox
  kStats = 5,     // SandboxRef -> StatsReply
  kNetwork = 6,   // NetworkRequest -> Done: replace the egress rules of one sandbox
  kCapacity = 7,  // CapacityRequest -> Done: how many slots and disks to keep ready
  kForget = 8,    // BuildRef -> Done: drop the runner's open handle of a template build
  kPause = 9,     // PauseRequest -> PauseReply: bring a sandbox to rest
  kResume = 10,   // StartRequest -> StartReply: wake it again, under a new generation

  kSnapshot = 11,       // SnapshotRequest -> SnapshotReply: store a copy of a sandbox's disk, and memory
  kDropSnapshot = 12,   // SnapshotRef -> Done: remove a stored copy; one that is not there is fine
  kListSnapshots = 13,  // Empty -> one SnapshotListReply per copy, then one with last = 1 and no snapshot

  kUsage = 14,  // UsageRequest -> UsageReply: CPU time of many sandboxes at once

  kLabels = 15,  // LabelsRequest -> Done: make identities for labels of commands

  // replies
  kHelloReply = 101,
  kStartReply = 102,
  kStopReply = 103,
  kListReply = 104,
  kStatsReply = 105,
  kDone = 106,  // Done: success or error of requests without an answer of their own
  kSnapshotReply = 107,
  kSnapshotListReply = 108,
  kUsageReply = 109,
  kPauseReply = 110,
  // events
  kExited = 201,  // ExitedEvent: PID 1 of a sandbox is gone; its resources are still held until kStop
  kHost = 202,    // HelloReply: the test of a tier has ended, and this is what is known now
};

// NUL-terminated text in a fixed field. Reading stops at the field's end.
template <std::size_t N>
struct Text {
  char bytes[N];
  void set(std::string_view text) {
    std::memset(bytes, 0, N);
    std::memcpy(bytes, text.data(), text.size() < N ? text.size() : N - 1);
  }
  std::string str() const { return std::string(bytes, strnlen(bytes, N)); }
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t type = 0;
  std::uint64_t id = 0;
};

// Error part of each reply. ok = 1: the rest is valid.
struct Status {
  std::uint8_t ok;
  std::uint8_t code;  // atl::Code
  std::uint16_t pad;
  std::int32_t sys_errno;
  Text<40> word;
  Text<208> message;
  Text<128> hint;
};

struct Empty {
  Header header;
};

struct SandboxRef {
  Header header;
  Text<24> sandbox;
  std::uint64_t generation;
};

// Which sandbox comes to rest, and how.
struct PauseRequest {
  Header header;
  Text<24> sandbox;
  std::uint64_t generation;
  std::uint8_t memory;    // 1: memory and processes go on later; 0: only the disk is kept
  std::uint8_t in_place;  // 1: the memory stays where it is, whatever the tier can
  std::uint8_t pad[6];
};

struct BuildRef {
  Header header;
  Text<40> build;
};

inline constexpr std::size_t kTiers = 4;  // numbers of Tier begin with 1

struct HelloReply {
  Header header;
  Status status;
  Text<32> runner_version;
  std::uint32_t pid;
  std::uint32_t slots_total;
  std::uint8_t tiers;                // bit (1 << Tier)
  std::uint8_t cgroup_mode;          // 1, 2, 3 = version 1, hybrid, version 2
  std::uint8_t landlock_abi;         // 0 when absent
  std::uint8_t disk_snapshot_tiers;  // bit (1 << Tier): those whose disks can be copied while they run
  std::uint8_t memory_tiers;         // bit (1 << Tier): those whose memory can be stored in files
  std::uint8_t quiet_tiers;          // of these: those that can only do so while no connection leads outside
  std::uint8_t tested_tiers;         // bit (1 << Tier): being tested, and nothing is known of them yet
  HostFeatures features;             // as the runner found them
  // By Tier: the check that failed, where the tier was looked for and is not usable.
  Text<256> obstacle[kTiers];
};

struct StartRequest {
  Header header;
  Text<24> sandbox;
  std::uint64_t generation;
  std::uint64_t owner_epoch;
  Text<40> build;     // UUID of the template build; the runner knows where builds are kept
  Text<24> snapshot;  // the disk starts as a copy of this one, made on the same build; empty: a fresh disk
  std::uint8_t tier;
  std::uint8_t internet;  // initial egress: 1 = policy open, 0 = closed
  std::uint8_t memory;    // 1: goes on with the memory of `snapshot`, and the guest daemon with its token;
                          // of a resume: with its own, or not at all
  std::uint8_t pad;
  std::uint32_t cpu_millis;
  std::uint32_t processes;
  std::uint32_t open_files;
  std::uint64_t memory_bytes;
  std::uint64_t disk_bytes;
  std::uint8_t internal_token[32];  // the guest daemon accepts internal calls only with this
};

inline constexpr std::size_t kStartSteps = 12;

struct StartReply {
  Header header;
  Status status;
  std::uint32_t slot;
  Text<16> interface;         // host side of the slot's link: bind to it to reach the sandbox
  std::uint32_t pid;          // of PID 1, in the host's pid namespace
  std::uint64_t start_ticks;  // its start time, /proc/<pid>/stat field 22: names the process for ever
  std::uint32_t step_us[kStartSteps];  // how long each StartStep took
};

enum StartStep : std::uint32_t {
  kStepQueue,
  kStepSlot,
  kStepDisk,
  kStepCgroup,
  kStepClone,
  kStepMaps,
  kStepMounts,
  kStepPivot,
  kStepConfine,
  kStepExec,
  kStepTotal,
  kStepPrepare,  // template and disk made ready for this slot, before kStepClone
};

struct StopReply {
  Header header;
  Status status;
  std::uint8_t was_running;
  std::uint8_t pad[3];
  std::uint32_t oom_kills;
};

// How a sandbox stands.
enum class Rest : std::uint8_t {
  kRuns = 0,
  kFrozen = 1,   // paused in memory: processes, slot, disk and cgroup are held
  kStoring = 2,  // on its way to kStored; never seen from outside unless that failed
  kStored = 3,   // paused on disk: nothing runs, only the disk is held
  kSaving = 4,   // on its way to kSaved; never seen from outside unless that failed
  kSaved = 5,    // paused with its memory in files: nothing runs, disk and files are held
};
constexpr bool on_disk(Rest rest) { return rest == Rest::kStored || rest == Rest::kSaved; }
constexpr bool on_its_way(Rest rest) { return rest == Rest::kStoring || rest == Rest::kSaving; }

// How it rests now. After kStored and kSaved it has no slot any more.
struct PauseReply {
  Header header;
  Status status;
  Rest rest;
  std::uint8_t pad[7];
  std::uint64_t
      kept_bytes;  // after kStored and kSaved: what its disk takes on the host, and its memory there
  // Where memory could be in files and stays where it is: what is in the way, as a word and for people.
  Text<32> obstacle;
  Text<160> why;
};

struct ListReply {
  Header header;
  Status status;
  std::uint8_t last;
  std::uint8_t alive;  // 0: PID 1 is gone although it should not, resources still held
  std::uint8_t tier;
  std::uint8_t rest;  // a Rest
  Text<24> sandbox;
  std::uint64_t generation;
  std::uint64_t owner_epoch;
  Text<40> build;
  std::uint32_t slot;
  Text<16> interface;
  std::uint32_t pid;
  std::uint64_t start_ticks;
  std::uint64_t kept_bytes;  // as in PauseReply
};

struct StatsReply {
  Header header;
  Status status;
  std::uint64_t cpu_us;       // since start
  std::uint64_t memory_used;  // bytes, without reclaimable cache
  std::uint64_t memory_cache;
  std::uint64_t memory_limit;
  std::uint64_t disk_used;
  std::uint64_t disk_total;
  std::uint32_t processes;
  std::uint32_t oom_kills;
};

inline constexpr std::size_t kUsageBatch = 64;

// Sandboxes by name, the first `count` of them.
struct UsageRequest {
  Header header;
  std::uint32_t count;
  std::uint32_t pad;
  Text<24> sandbox[kUsageBatch];
};

inline constexpr std::uint64_t kUsageUnknown = ~0ull;

// In the same order: CPU time since the start, or kUsageUnknown.
struct UsageReply {
  Header header;
  Status status;
  std::uint64_t cpu_us[kUsageBatch];
};

struct NetworkRequest {
  Header header;
  Text<24> sandbox;
  std::uint64_t generation;
  std::uint8_t internet;
  std::uint8_t allow_count;
  std::uint8_t deny_count;
  std::uint8_t pad;
  struct {
    std::uint8_t address[4];
    std::uint8_t prefix;
    std::uint8_t pad[3];
  } allow[kMaxNetworkRules], deny[kMaxNetworkRules];
};

// Labels 1 to `count` have an identity afterwards; those that have one keep it. Refused with the word
// label_unsupported where the tier or the host cannot give any.
struct LabelsRequest {
  Header header;
  Text<24> sandbox;
  std::uint64_t generation;
  std::uint32_t count;
  std::uint32_t pad;
};

struct CapacityRequest {
  Header header;
  std::uint32_t ready_slots;
  std::uint32_t ready_disks;
  std::uint64_t disk_bytes;  // size of the disks kept ready
};

// Which sandbox, and under which id its copy is kept.
struct SnapshotRequest {
  Header header;
  Text<24> sandbox;
  std::uint64_t generation;
  Text<24> snapshot;    // chosen by control
  std::uint8_t memory;  // 1: with what is in its memory
  std::uint8_t pad[7];
};

// What a copy came to.
struct SnapshotReply {
  Header header;
  Status status;
  std::uint64_t disk_bytes;    // of the disk
  std::uint64_t stored_bytes;  // that the copy takes, with its memory; shared ones count
  std::uint32_t still_us;      // how long the sandbox stood still
  std::uint32_t total_us;
};

// Names a stored copy.
struct SnapshotRef {
  Header header;
  Text<24> snapshot;
};

// One stored copy, or the end of the list.
struct SnapshotListReply {
  Header header;
  Status status;
  std::uint8_t last;
  std::uint8_t pad[7];
  Text<24> snapshot;
  std::uint64_t stored_bytes;
};

struct Done {
  Header header;
  Status status;
};

struct ExitedEvent {
  Header header;
  Text<24> sandbox;
  std::uint64_t generation;
  std::int32_t wait_status;  // as of waitpid(2); -1 when the runner could not see it
  std::uint32_t oom_kills;
};

// Every message is a plain block of bytes.
template <class T>
inline constexpr bool kIsMessage = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>;
static_assert(kIsMessage<StartRequest> && kIsMessage<StartReply> && kIsMessage<NetworkRequest> &&
              kIsMessage<ListReply>);
inline constexpr std::size_t kMaxMessage = 2048;
static_assert(sizeof(NetworkRequest) <= kMaxMessage && sizeof(ListReply) <= kMaxMessage &&
              sizeof(HelloReply) <= kMaxMessage && sizeof(UsageRequest) <= kMaxMessage &&
              sizeof(UsageReply) <= kMaxMessage);

}  // namespace atl::model::wire
