// SPDX-License-Identifier: Apache-2.0
#include "model/overhead.h"

#include "base/units.h"

namespace atl::model {
namespace {

constexpr Overhead kGvisor{32 * kMiB, 64};
constexpr Overhead kMachine{96 * kMiB, 96};  // up to 64 threads do file I/O
constexpr std::uint64_t kTranslatedCode = 160 * kMiB;

}  // namespace

Overhead overhead_of(Tier tier, std::uint64_t missing_layers) {
  bool emulated = (missing_layers >> static_cast<unsigned>(Feature::kKvm) & 1) != 0;
  switch (tier) {
    case Tier::kContainer: return {};
    case Tier::kGvisor: return kGvisor;
    case Tier::kMicrovm: break;
  }
  return {kMachine.memory_bytes + (emulated ? kTranslatedCode : 0), kMachine.processes};
}

}  // namespace atl::model
