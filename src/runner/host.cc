// SPDX-License-Identifier: Apache-2.0
#include "runner/host.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "runner/gvisor/check.h"
#include "sys/features/features.h"

namespace atl::runner {
namespace {

std::uint8_t& at(model::HostFeatures& host, model::Feature feature) {
  return host.error[static_cast<std::size_t>(feature)];
}

std::uint8_t number_of(const Result<void>& result) {
  if (result.ok()) return 0;
  int number = result.error().sys_errno();
  return static_cast<std::uint8_t>(number > 0 && number < model::kNotTried ? number : EIO);
}

}  // namespace

model::HostFeatures try_host() {
  model::HostFeatures host{};
  std::memset(host.error, model::kNotTried, sizeof host.error);
  for (const model::FeatureInfo& row : model::features()) {
    std::optional<int> number = sys::try_feature(row.name);
    if (number) at(host, row.feature) = static_cast<std::uint8_t>(*number);
  }
  return host;
}

void note_gvisor(model::HostFeatures& host, const Result<void>& found) {
  bool old = !found.ok() && found.error().word() == gvisor::kTooOld;
  at(host, model::Feature::kRunsc) = found.ok() || old ? 0 : ENOENT;
  if (found.ok() || old) at(host, model::Feature::kRunscRecent) = old ? ENOEXEC : 0;
}

void note_gvisor_starts(model::HostFeatures& host, const Result<void>& started) {
  at(host, model::Feature::kRunscStarts) = number_of(started);
}

void note_machine(model::HostFeatures& host, const Result<void>& image) {
  at(host, model::Feature::kQemu) = number_of(image);
}

void note_machine_starts(model::HostFeatures& host, const Result<microvm::Accelerator>& found) {
  at(host, model::Feature::kMachineStarts) = number_of(found.ok() ? success() : Result<void>(found.error()));
  bool kvm = found.ok() && *found == microvm::Accelerator::kKvm;
  if (!kvm && at(host, model::Feature::kKvm) == 0) at(host, model::Feature::kKvm) = EOPNOTSUPP;
}

void tell_missing(const model::HostFeatures& host) {
  for (const model::FeatureInfo& row : model::features()) {
    std::uint8_t error = host.error[static_cast<std::size_t>(row.feature)];
    if (error == 0 || error == model::kNotTried) continue;
    log::Level level = log::Level::kWarn;
    if (row.needed != 0)
      level = (row.needed & model::kContainerTier) != 0 ? log::Level::kError : log::Level::kInfo;
    log::write(
        level,
        row.needed != 0 ? "this host lacks what a tier needs" : "this host lacks what tiers profit from",
        {{"feature", row.name}, {"error", model::feature_error(error)}, {"remedy", row.remedy}});
  }
}

}  // namespace atl::runner
