// SPDX-License-Identifier: Apache-2.0
//
// The one table of what a tier needs or profits from on a host. `atoll doctor`, GET /v1/host/posture, the
// metrics, the refusals of creates and the missing layers of each sandbox all come from it. How a feature is
// tried is in sys/features.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/sandbox.h"

namespace atl::model {

// Positions in the wire's array and bits of a sandbox's missing layers, which are stored: only append.
enum class Feature : std::uint8_t {
  kLandlock = 0,
  kCgroupKill = 1,
  // 2, 3 and 4 stood for layers that no host ever lacked.
  kMountApi = 5,
  kUserNamespaces,
  kMountNamespaces,
  kPidNamespaces,
  kNetworkNamespaces,
  kIpcNamespaces,
  kUtsNamespaces,
  kCgroupNamespaces,
  kSetns,
  kPivotRoot,
  kClone3,
  kPidfd,
  kCloseRange,
  kOpenat2,
  kExecveat,
  kKeyrings,
  kMemfdSealing,
  kSeccomp,
  kMountSetattr,
  kOverlay,
  kOverlayUserxattr,
  kErofs,
  kExt4,
  kLoopDevices,
  kIdmappedMounts,
  kCgroupTree,
  kCgroupMemory,
  kCgroupCpu,
  kCgroupPids,
  kCgroupFreeze,
  kSwapLimit,
  kNftables,
  kConntrack,
  kNat,
  kVeth,
  kPressure,
  kRunsc,
  kRunscRecent,
  kRunscStarts,
  kQemu,
  kKvm,
  kTun,
  kMachineStarts,
  kProcessLabels,
  kEnd,
};
inline constexpr std::size_t kFeatures = static_cast<std::size_t>(Feature::kEnd);
static_assert(kFeatures <= 64, "a sandbox's missing layers are one 64-bit number");

// A set of tiers: bit (1 << Tier).
using Tiers = std::uint8_t;
constexpr Tiers tiers_of(Tier tier) { return static_cast<Tiers>(1u << static_cast<unsigned>(tier)); }
inline constexpr Tiers kContainerTier = tiers_of(Tier::kContainer), kGvisorTier = tiers_of(Tier::kGvisor),
                       kMicrovmTier = tiers_of(Tier::kMicrovm);

// One row of the table.
struct FeatureInfo {
  Feature feature;
  const char* name;   // stable word: "cgroup_kill"
  const char* title;  // for people: "kill switch of cgroups"
  Tiers needed;       // these tiers are refused without it
  Tiers used;         // these do without it, and say so
  bool layer;         // of `used`: a layer of defence is missing then, not only a convenience
  const char* remedy;
};
// In the order in which an obstacle is looked for: what others build on comes first.
std::span<const FeatureInfo> features();
const FeatureInfo& info(Feature feature);

// What a host was found to have, by Feature. 0: it works.
struct HostFeatures {
  std::uint8_t error[64];  // errno of the attempt; kNotTried where nobody has looked
};
inline constexpr std::uint8_t kNotTried = 255;
inline bool works(const HostFeatures& host, Feature feature) {
  return host.error[static_cast<std::size_t>(feature)] == 0;
}

// The first feature that `tier` needs and the host lacks, as a sentence with its remedy; empty: none.
std::string obstacle(const HostFeatures& host, Tier tier);
// Bits (1 << Feature) of the layers of defence that `tier` would have and the host lacks.
std::uint64_t missing_layers(const HostFeatures& host, Tier tier);
// "Function not implemented", or "not tried".
std::string feature_error(std::uint8_t error);

}  // namespace atl::model
