// SPDX-License-Identifier: Apache-2.0
//
// The rows that control owns, as plain data: sandboxes, tenants, keys, templates, events.
#pragma once

#include <map>
#include <vector>

#include "base/secret.h"
#include "model/isolation.h"
#include "model/state.h"

namespace atl::model {

using StringMap = std::map<std::string, std::string>;
using Key32 = std::array<std::uint8_t, 32>;

// Why a sandbox ended. Stable words of the API; empty while it lives.
inline constexpr char kOutcomeKilled[] = "killed";                   // by a client
inline constexpr char kOutcomeTimedOut[] = "timed_out";              // its deadline passed
inline constexpr char kOutcomeOutOfMemory[] = "out_of_memory";       // PID 1 was killed by its memory limit
inline constexpr char kOutcomeAgentLost[] = "agent_lost";            // PID 1 is gone, or never answered
inline constexpr char kOutcomeLost[] = "lost";                       // the runner no longer knows it
inline constexpr char kOutcomeCreateFailed[] = "create_failed";      // never ran
inline constexpr char kOutcomeInterrupted[] = "create_interrupted";  // control died half way; undone
inline constexpr char kOutcomeDrained[] = "drained";       // a pool sandbox that is no longer wanted
inline constexpr char kOutcomeShutDown[] = "shut_down";    // Atoll was stopped on this machine
inline constexpr char kOutcomeStopStuck[] = "stop_stuck";  // the kernel did not let go in time; still retried

struct Ingress {
  bool allow_public = true;
  std::string mask_request_host;
  bool operator==(const Ingress&) const = default;
};

// What happens at the deadline, and what wakes a paused sandbox.
struct Lifecycle {
  enum class OnTimeout : std::uint8_t { kKill, kPause };
  OnTimeout on_timeout = OnTimeout::kKill;
  bool keep_memory = true;   // at a pause by the deadline or for want of work
  bool auto_resume = false;  // by traffic from outside
  Millis timeout{300'000};   // as asked at create; that of a sandbox that traffic wakes
  Millis idle_timeout{0};    // without work for so long, it pauses; 0: it does not
  bool operator==(const Lifecycle&) const = default;
};

// Why a sandbox was brought to rest.
enum class PauseCause : std::uint8_t { kAsked, kDeadline, kIdle };
std::string_view pause_cause_name(PauseCause cause);  // "asked", "deadline", "idle"

struct SandboxRow {
  std::string id;
  std::string tenant;  // empty: in the pool, owned by nobody
  std::string template_id;
  std::string alias;
  std::string build;
  Tier tier = Tier::kContainer;  // in force
  Demand asked;                  // of it nothing weaker may be given
  State state = State::kCreating;
  std::uint64_t generation = 1;
  std::uint64_t owner_epoch = 0;
  Limits limits;
  std::uint32_t slot = 0;
  std::string interface;
  std::uint32_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t missing_layers = 0;  // bits of Feature, of the tier in force
  Key32 internal_token{};
  Secret access_token;   // empty: not secured
  Secret traffic_token;  // empty: public traffic is allowed
  StringMap metadata;
  NetworkRules network;
  std::vector<std::string> labels;  // of commands, by number less one; grows only
  Ingress ingress;
  Lifecycle lifecycle;
  bool rests_in_memory = true;  // while it is paused: or on its disk
  // For the guest daemon, which forgets them when it boots again. The environment is not kept here: it may
  // hold secrets.
  std::string user;
  std::string workdir;
  PauseCause pause_cause = PauseCause::kAsked;  // of the last pause
  std::string
      memory_note;  // while it rests in memory: why it could not be in files; empty: nothing was in the way
  WallTime created_at;
  WallTime started_at;
  WallTime deadline;  // while it is paused: when that was
  // The same deadline on the monotonic clock of this boot, in ms. What runs never outlives the boot it was
  // started in, so this one is exact after a restart, whatever happened to the wall clock.
  std::int64_t deadline_steady_ms = 0;
  // About when it last had work, on the same clock: behind the truth by up to a quarter of its
  // idle timeout, so that a busy sandbox is not written at each request.
  std::int64_t active_steady_ms = 0;
  WallTime ended_at;
  std::string outcome;
  std::string reason;  // for people; empty unless something went wrong
};

struct Intent {
  Operation operation = Operation::kCreate;
  WallTime due;
};

enum class Role : std::uint8_t { kMember = 1, kAdmin = 2 };  // admin: also the host's objects
std::string_view role_name(Role role);

// How many sandboxes, and the sums of their limits.
struct Amounts {
  std::uint32_t sandboxes = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t cpu_millis = 0;  // 1000 = one core
  std::uint64_t processes = 0;
  std::uint64_t disk_bytes = 0;
  bool operator==(const Amounts&) const = default;
};

struct Tenant {
  std::string id;  // UUID
  std::string name;
  Amounts limit;  // sandboxes 0: the host's default; a sum of 0: no limit
  WallTime created_at;
  IsolationRule isolation;
};

struct ApiKey {
  std::string id;  // UUID
  std::string tenant;
  std::string name;
  std::string prefix;  // "e2b_" and the first 6 digits, to recognise it by
  std::string hash;    // SHA-256, 32 raw bytes
  Role role = Role::kMember;
  WallTime created_at;
};

struct Build {
  std::string id;  // UUID
  std::string template_id;
  std::string user = "user";
  std::string workdir = "/home/user";
  StringMap envs;
  Limits limits;
  Millis idle_timeout{0};  // of sandboxes whose create names none; 0: they do not pause for want of work
  WallTime created_at;
};

struct Template {
  std::string id;          // 20 of [a-z0-9]
  std::string tenant;      // owner
  std::string name_space;  // empty for local ones
  std::string alias;
  bool is_public = false;
  std::optional<std::uint32_t>
      pool_size;  // sandboxes kept ready of the build with tag `default`; none: the host's default
  IsolationRule isolation;
  WallTime created_at;
  WallTime updated_at;
  WallTime last_spawned_at;  // 0: never
  std::uint64_t spawn_count = 0;
  std::map<std::string, std::string> tags;  // tag -> build id
};

inline constexpr char kDefaultTag[] = "default";

// "[namespace/]alias[:tag]" of the E2B protocol; a template id is an alias in form.
struct TemplateRef {
  std::string name_space;
  std::string alias;
  std::string tag = kDefaultTag;
};
Result<TemplateRef> parse_template_ref(std::string_view text);
bool valid_uuid(std::string_view text);

// How far the making or the removal of a snapshot has come. Only ready ones can be used.
enum class SnapshotState : std::uint8_t { kCreating = 1, kReady, kDeleting };

// A stored copy of a sandbox's disk, and memory.
struct Snapshot {
  std::string id;
  std::string tenant;
  SnapshotState state = SnapshotState::kCreating;
  bool is_fork = false;  // made for a fork: nobody is told of it, and it goes when its children have started
  std::string name_space;  // as given; part of the name that is shown
  std::string name;        // empty: none
  std::string tag;
  std::string sandbox;     // that it was made of
  bool memory = false;     // with its processes
  Key32 internal_token{};  // that the guest daemon in this memory knows, until it is told another
  Tier tier = Tier::kContainer;
  std::string alias;  // of the template
  Build build;        // that lies below the disk, with the limits of the sandbox
  std::uint64_t stored_bytes = 0;
  WallTime created_at;
};

struct Event {
  std::int64_t seq = 0;
  WallTime at;
  std::string tenant;   // empty: of the host
  std::string sandbox;  // empty: not about one
  std::string type;     // "sandbox.running"
  std::string message;  // a sentence for people
  std::string data;     // JSON object
};

}  // namespace atl::model
