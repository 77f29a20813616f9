// SPDX-License-Identifier: Apache-2.0
#include "runner/options.h"

#include <getopt.h>

#include <algorithm>

#include "base/patience.h"
#include "base/text.h"
#include "runner/names.h"

namespace atl::runner {
namespace {

enum Flag : int {
  kDataDir = 256,
  kRunDir,
  kSocket,
  kControlUser,
  kControlUid,
  kSlotFirst,
  kSlotCount,
  kInstance,
  kGuestd,
  kRunsc,
  kMicrovmEmulation,
  kEvictPaused,
  kPatience,
  kEgressPort,
  kReadySlots,
  kReadyDisks,
  kDiskMib,
  kHelp,
  kVersion,
};

constexpr option kFlags[] = {
    {"data-dir", required_argument, nullptr, kDataDir},
    {"run-dir", required_argument, nullptr, kRunDir},
    {"socket", required_argument, nullptr, kSocket},
    {"control-user", required_argument, nullptr, kControlUser},
    {"control-uid", required_argument, nullptr, kControlUid},
    {"slot-first", required_argument, nullptr, kSlotFirst},
    {"slot-count", required_argument, nullptr, kSlotCount},
    {"instance", required_argument, nullptr, kInstance},
    {"guestd", required_argument, nullptr, kGuestd},
    {"runsc", required_argument, nullptr, kRunsc},
    {"microvm-emulation", no_argument, nullptr, kMicrovmEmulation},
    {"evict-paused", no_argument, nullptr, kEvictPaused},
    {"patience", required_argument, nullptr, kPatience},
    {"egress-port", required_argument, nullptr, kEgressPort},
    {"ready-slots", required_argument, nullptr, kReadySlots},
    {"ready-disks", required_argument, nullptr, kReadyDisks},
    {"disk-mib", required_argument, nullptr, kDiskMib},
    {"help", no_argument, nullptr, kHelp},
    {"version", no_argument, nullptr, kVersion},
    {nullptr, 0, nullptr, 0},
};

Result<std::uint32_t> number(const char* flag, const char* text, std::uint32_t low, std::uint32_t high) {
  std::optional<std::uint32_t> value = parse_number<std::uint32_t>(text);
  if (!value || *value < low || *value > high) {
    return make_error(Code::kInvalid, "--{} must be a number from {} to {}, not \"{}\"", flag, low, high,
                      text);
  }
  return *value;
}

bool valid_instance(const std::string& name) {
  auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= 24 && std::all_of(name.begin(), name.end(), good);
}

Result<void> apply(Options& options, int flag) {
  switch (flag) {
    case kDataDir: options.data_dir = optarg; break;
    case kRunDir: options.run_dir = optarg; break;
    case kSocket: options.socket = optarg; break;
    case kControlUser: options.control_user = optarg; break;
    case kControlUid: {
      TRY(options.control_uid, number("control-uid", optarg, 0, 0x7fffffff));
      break;
    }
    case kSlotFirst: {
      TRY(options.slots.first, number("slot-first", optarg, 0, kMaxSlots - 1));
      break;
    }
    case kSlotCount: {
      TRY(options.slots.count, number("slot-count", optarg, 1, kMaxSlots));
      break;
    }
    case kInstance: options.instance = optarg; break;
    case kGuestd: options.guestd = optarg; break;
    case kRunsc: options.runsc = optarg; break;
    case kMicrovmEmulation: options.microvm_emulation = true; break;
    case kEvictPaused: options.evict_paused = true; break;
    case kPatience: {
      TRY(options.patience, number("patience", optarg, 1, kMaxPatience));
      break;
    }
    case kEgressPort: {
      TRY(std::uint32_t port, number("egress-port", optarg, 1, 65535));
      options.egress_port = static_cast<std::uint16_t>(port);
      break;
    }
    case kReadySlots: {
      TRY(options.ready_slots, number("ready-slots", optarg, 0, kMaxSlots));
      break;
    }
    case kReadyDisks: {
      TRY(options.ready_disks, number("ready-disks", optarg, 0, kMaxSlots));
      break;
    }
    case kDiskMib: {
      TRY(std::uint32_t mib, number("disk-mib", optarg, 16, 1u << 22));
      options.disk_bytes = static_cast<std::uint64_t>(mib) << 20;
      break;
    }
    case kHelp: options.action = Options::Action::kHelp; break;
    case kVersion: options.action = Options::Action::kVersion; break;
    default: return make_error(Code::kInvalid, "unknown flag; see atoll-runner --help");
  }
  return success();
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int flag; (flag = ::getopt_long(argc, argv, "", kFlags, nullptr)) != -1;)
    TRY_VOID(apply(options, flag));
  if (optind != argc)
    return make_error(Code::kInvalid, "unexpected word \"{}\"; see atoll-runner --help", argv[optind]);
  if (!valid_instance(options.instance)) {
    return make_error(Code::kInvalid, "--instance must be 1 to 24 of a-z, 0-9 and _, not \"{}\"",
                      options.instance);
  }
  if (options.slots.first + options.slots.count > kMaxSlots) {
    return make_error(Code::kInvalid, "the slot range must end at {} at most", kMaxSlots);
  }
  if (options.socket.empty()) options.socket = options.run_dir + "/runner.sock";
  options.ready_slots = std::min(options.ready_slots, options.slots.count);
  return options;
}

std::string options_help() {
  return R"(Usage: atoll-runner [flags]

The privileged part of Atoll: starts, stops and confines sandboxes, on the word of atoll-control only.
Runs as root in the foreground; sandboxes outlive it and are taken over by the next one.

  --data-dir DIR      templates/ and disks/ are below it (default /var/lib/atoll)
  --run-dir DIR       socket and records of sandboxes (default /run/atoll)
  --socket PATH       where control connects (default RUN-DIR/runner.sock)
  --control-user NAME the user that may connect, beside root (default atoll)
  --control-uid N     the same by number
  --instance NAME     names the cgroup parent and the nftables table (default atoll)
  --slot-first N      first slot number (default 0); ranges of several instances must not overlap
  --slot-count N      how many sandboxes there can be at most (default 1024)
  --guestd PATH       the guest daemon's program (default: atoll-guestd beside this one)
  --runsc PATH        gVisor's program, for the gvisor tier (default: found in PATH); none: do without
  --microvm-emulation where KVM does not work, emulate the processors of the microvm tier: slow, and reported
  --evict-paused      take the memory of paused sandboxes to the host's swap; refused where there is none
  --patience N        wait N times as long for sandboxes to start, rest and end (default 1, up to 20): for
                      hosts that are emulated, or always busy
  --egress-port N     where atoll-gateway listens: all TCP and all DNS of sandboxes is redirected to it, the
                      rest is refused (default: no gateway, address rules alone decide)
  --ready-slots N     slots to keep ready (default 8)
  --ready-disks N     disks to keep ready (default 8)
  --disk-mib N        size of the ready disks in MiB (default 4096)
  --help, --version

Environment: ATOLL_LOG=debug|info|warn|error.
)";
}

}  // namespace atl::runner
