// SPDX-License-Identifier: Apache-2.0
//
// What the service does for labels of commands.
#include <algorithm>

#include "base/fault.h"
#include "model/slot_address.h"
#include "runner/labels.h"
#include "runner/service.h"
#include "runner/service_impl.h"

namespace atl::runner {
namespace {

Error label_unsupported(std::string_view why) {
  return make_error(Code::kUnsupported, "commands cannot have labels here: {}", why)
      .with_word("label_unsupported")
      .with_hint("labels need tier container and a host with cgroup2; 'atoll doctor' shows the latter");
}

}  // namespace

wire::Done Service::labels(const wire::LabelsRequest& request) {
  auto reply = reply_to<wire::Done>(request.header, wire::Type::kDone);
  return finished(reply, set_labels(request));
}

// The record comes last: after a crash in between nothing says that there are labels, nothing of them is let
// in, and the repetition makes all of it.
Result<void> Service::set_labels(const wire::LabelsRequest& request) {
  std::string id = request.sandbox.str();
  if (request.count > model::kMaxLabels)
    return make_error(Code::kInvalid, "a sandbox has at most {} labels", model::kMaxLabels);
  TRY(Held held, hold(id, request.generation));
  Sandbox& sandbox = *held.sandbox;
  if (sandbox.record.tier != static_cast<std::uint8_t>(model::Tier::kContainer))
    return label_unsupported("of another tier than container this host sees one sender only");
  if (!sandbox.record.can_label()) return label_unsupported("it was started where no command could have one");
  if (!works(hello().features, model::Feature::kProcessLabels))
    return label_unsupported("this host lacks process_labels");
  bool runs = !sandbox.ended && sandbox.record.pid != 0 && sandbox.record.rest == wire::Rest::kRuns;
  if (!runs) return make_error(Code::kConflict, "sandbox {} does not run", id);
  if (request.count <= sandbox.record.label_count()) return success();
  TRY_VOID(make_labels(parts_.cgroups, id, sandbox.pidfd.get(), sandbox.record.slot, request.count));
  TRY_VOID(parts_.firewall.apply_labels(sandbox.record.slot, request.count));
  FAULT("runner.labels.after_rules");
  Record changed = sandbox.record;
  changed.labels = static_cast<std::uint8_t>(request.count);
  TRY_VOID(parts_.records.write(changed));
  FAULT("runner.labels.after_record");
  sandbox.record = changed;
  return success();
}

}  // namespace atl::runner
