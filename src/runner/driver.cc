// SPDX-License-Identifier: Apache-2.0
#include "runner/driver.h"

namespace atl::runner {

Error unsupported(model::Tier tier, std::string_view capability) {
  return make_error(Code::kUnsupported, "tier {} has no capability {}", model::tier_name(tier), capability)
      .with_word("capability_unsupported")
      .with_hint("ask for a tier that has it");
}

Result<void> Driver::pause(const Running&) { return unsupported(tier(), "pause"); }
Result<void> Driver::resume(const Running&, bool&) { return unsupported(tier(), "pause"); }
Result<void> Driver::resume(const Running& running) {
  bool ignored = false;
  return resume(running, ignored);
}
Result<void> Driver::sync(const Running&) { return unsupported(tier(), "disk_snapshot"); }
Result<void> Driver::still(const Running& running) {
  TRY_VOID(pause(running));
  Result<void> written = sync(running);
  if (!written.ok()) TRY_VOID(resume(running));
  return written;
}
Result<void> Driver::save(const Running&, const model::Limits&, const std::string&) {
  return unsupported(tier(), "memory_snapshot");
}
Result<Started> Driver::restore(const StartSpec&, Leases&, const std::string&, StepTimes&) {
  return unsupported(tier(), "memory_snapshot");
}

}  // namespace atl::runner
